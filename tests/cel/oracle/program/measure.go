package main

import (
	"context"
	"runtime"
	"slices"
	"time"

	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// timings are in nanoseconds.
type timings struct {
	Compile distribution `json:"compile"`
	Match   distribution `json:"match"`
}

type distribution struct {
	Median int64 `json:"median"`
	P90    int64 `json:"p90"`
	P99    int64 `json:"p99"`
	Mean   int64 `json:"mean"`
}

const compilations = 100

func measure(ctx context.Context, asked question) *timings {
	devices := make([]dracel.Device, len(asked.Devices))
	for i, encoded := range asked.Devices {
		devices[i], _ = decoded(encoded)
	}
	var program dracel.CompilationResult
	runtime.GC()
	compile := sampled(compilations, func() {
		// The scheduler does not estimate costs.
		program = compiler.CompileCELExpression(asked.Expression, dracel.Options{DisableCostEstimation: true})
	})
	runtime.GC()
	next := 0
	match := sampled(asked.Repetitions*len(devices), func() {
		_, _, _ = program.DeviceMatches(ctx, devices[next%len(devices)])
		next++
	})
	return &timings{Compile: compile, Match: match}
}

func sampled(times int, what func()) distribution {
	samples := make([]int64, times)
	var sum int64
	for i := range samples {
		started := time.Now()
		what()
		samples[i] = time.Since(started).Nanoseconds()
		sum += samples[i]
	}
	if times == 0 {
		return distribution{}
	}
	slices.Sort(samples)
	return distribution{
		Median: samples[times/2],
		P90:    samples[times*9/10],
		P99:    samples[times*99/100],
		Mean:   sum / int64(times),
	}
}
