// Prints what go-nvlib, the library below NVIDIA's device plugin and DRA driver, finds on a node: one JSON list.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func main() {
	library := nvml.New()
	done(library.Init())
	found := []gpu{}
	check(device.New(library).VisitDevices(func(index int, visited device.Device) error {
		found = append(found, describe(index, visited))
		return nil
	}))
	done(library.Shutdown())
	check(json.NewEncoder(os.Stdout).Encode(found))
}

// must is for calls of go-nvlib, which return errors.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// told is for calls of go-nvml, which return NVML's codes.
func told[T any](value T, code nvml.Return) T {
	done(code)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func done(code nvml.Return) {
	if code != nvml.SUCCESS {
		log.Fatal(nvml.ErrorString(code))
	}
}
