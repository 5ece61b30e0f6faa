// Says, for each line of JSON on standard input, what NVIDIA's driver makes of it as the parameters of an opaque
// config: its own decoder, defaults and checks. The arguments are the uuids of the claim's GPUs.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"

	"sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
	"sigs.k8s.io/dra-driver-nvidia-gpu/pkg/featuregates"
)

const longestLine = 1 << 26

// What the driver would set, or why it refuses.
type answer struct {
	Kind     string `json:"kind,omitempty"`
	Refusal  string `json:"refusal,omitempty"`
	Panic    string `json:"panic,omitempty"`
	Strategy string `json:"strategy,omitempty"`
	Interval *int   `json:"interval,omitempty"`
	Threads  *int   `json:"threads,omitempty"`
	// By the uuid of the GPU.
	Memory map[string]string `json:"memory,omitempty"`
}

func main() {
	gates := map[string]bool{"TimeSlicingSettings": true, "MPSSupport": true}
	if err := featuregates.FeatureGates().SetFromMap(gates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	for lines.Scan() {
		if err := encoder.Encode(check(lines.Bytes())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func check(parameters []byte) (result answer) {
	defer func() {
		if problem := recover(); problem != nil {
			result = answer{Panic: fmt.Sprint(problem)}
		}
	}()
	decoded, err := runtime.Decode(v1beta1.StrictDecoder, parameters)
	if err != nil {
		return answer{Refusal: err.Error()}
	}
	config, ok := decoded.(v1beta1.Interface)
	if !ok {
		return answer{Refusal: fmt.Sprintf("%T is no config", decoded)}
	}
	if err := config.Normalize(); err != nil {
		return answer{Refusal: err.Error()}
	}
	if err := config.Validate(); err != nil {
		return answer{Refusal: err.Error()}
	}
	switch config := decoded.(type) {
	case *v1beta1.GpuConfig:
		return settings("GpuConfig", config.Sharing)
	case *v1beta1.MigDeviceConfig:
		return settings("MigDeviceConfig", config.Sharing)
	default:
		return answer{Kind: fmt.Sprintf("%T", decoded)}
	}
}

func settings(kind string, sharing v1beta1.Sharing) answer {
	result := answer{Kind: kind}
	switch {
	case sharing.IsTimeSlicing():
		result.Strategy = "TimeSlicing"
		config, err := sharing.GetTimeSlicingConfig()
		if err != nil {
			return answer{Refusal: err.Error()}
		}
		if config != nil && config.Interval != nil {
			interval := config.Interval.Int()
			result.Interval = &interval
		}
	case sharing.IsMps():
		result.Strategy = "MPS"
		config, err := sharing.GetMpsConfig()
		if err != nil {
			return answer{Refusal: err.Error()}
		}
		if config == nil {
			return result
		}
		result.Threads = config.DefaultActiveThreadPercentage
		each := config.DefaultPerDevicePinnedMemoryLimit
		limits, err := each.Normalize(os.Args[1:], config.DefaultPinnedDeviceMemoryLimit)
		if err != nil {
			return answer{Refusal: err.Error()}
		}
		result.Memory = limits
	}
	return result
}
