package main

import (
	"context"
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
)

type outcome string

const (
	matches      outcome = "match"
	noMatch      outcome = "no-match"
	compileError outcome = "compile-error"
	runtimeError outcome = "runtime-error"
	timeout      outcome = "timeout"
	panicked     outcome = "panic"
)

type result struct {
	Outcome    outcome `json:"outcome"`
	Error      string  `json:"error,omitempty"`
	ActualCost *uint64 `json:"actualCost,omitempty"`
}

// device has the form of a device in a ResourceSlice, and its driver.
type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

var (
	// What the scheduler reads is stored, and for that the feature gates do not count.
	compiler = dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	// The gates as they are by default, in 1.36 as in 1.37.
	compilerOfDefaults = dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true})
	programs           = lru.New(256)
)

func compiled(expression string, isNew bool) dracel.CompilationResult {
	type key struct {
		expression string
		isNew      bool
	}
	if known, found := programs.Get(key{expression, isNew}); found {
		return known.(dracel.CompilationResult)
	}
	var program dracel.CompilationResult
	if isNew {
		options := dracel.Options{EnvType: ptr.To(environment.NewExpressions)}
		program = compilerOfDefaults.CompileCELExpression(expression, options)
	} else {
		program = compiler.CompileCELExpression(expression, dracel.Options{})
	}
	programs.Add(key{expression, isNew}, program)
	return program
}

func match(ctx context.Context, program dracel.CompilationResult, encoded json.RawMessage) (told result) {
	defer func() {
		if problem := recover(); problem != nil {
			told = result{Outcome: panicked, Error: fmt.Sprint(problem)}
		}
	}()
	// Decoded anew for each match: in 1.36, expressions can change the quantities of a device.
	device, err := decoded(encoded)
	if err != nil {
		return result{Outcome: panicked, Error: err.Error()}
	}
	matched, details, err := program.DeviceMatches(ctx, device)
	if details != nil {
		told.ActualCost = details.ActualCost()
	}
	switch {
	case err == nil && matched:
		told.Outcome = matches
	case err == nil:
		told.Outcome = noMatch
	case ctx.Err() != nil:
		told.Outcome, told.Error = timeout, err.Error()
	default:
		told.Outcome, told.Error = runtimeError, err.Error()
	}
	return told
}

func decoded(encoded json.RawMessage) (dracel.Device, error) {
	var given device
	if err := json.Unmarshal(encoded, &given); err != nil {
		return dracel.Device{}, fmt.Errorf("not a device: %w", err)
	}
	return dracel.Device(given), nil
}
