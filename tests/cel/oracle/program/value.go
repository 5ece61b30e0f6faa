package main

import (
	"context"
	"encoding/json"

	"github.com/google/cel-go/cel"
	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// Since 1.37, expressions may also say what the value of an attribute is: they need not be of type bool.
type derivedCompiler interface {
	GetOrCompileDerivedAttribute(expression string) dracel.CompilationResult
}

type derivedProgram interface {
	EvaluateDerivedAttribute(context.Context, dracel.Device) (*resourceapi.DeviceAttribute, *cel.EvalDetails, error)
}

var derivedCompilations any = dracel.NewCache(256, dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})

// valueOf is the string that the expression evaluates to, if it does.
func valueOf(ctx context.Context, expression string, encoded json.RawMessage) *string {
	compiler, can := derivedCompilations.(derivedCompiler)
	if !can {
		return nil
	}
	program := compiler.GetOrCompileDerivedAttribute(expression)
	if program.Error != nil {
		return nil
	}
	device, err := decoded(encoded)
	if err != nil {
		return nil
	}
	attribute, _, err := any(program).(derivedProgram).EvaluateDerivedAttribute(ctx, device)
	if err != nil {
		return nil
	}
	return attribute.StringValue
}
