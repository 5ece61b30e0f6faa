package main

import (
	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type mig struct {
	Index           int      `json:"index"`
	UUID            string   `json:"uuid"`
	Profile         string   `json:"profile"`
	MemoryMiB       uint64   `json:"memoryMiB"`
	Engines         engines  `json:"engines"`
	GpuInstance     instance `json:"gpuInstance"`
	ComputeInstance instance `json:"computeInstance"`
}

type instance struct {
	ID        uint32 `json:"id"`
	ProfileID uint32 `json:"profileID"`
	Place     place  `json:"place"`
}

func describeMig(index int, parent device.Device, visited device.MigDevice) mig {
	attributes := told(visited.GetAttributes())
	gpuInstance := told(parent.GetGpuInstanceById(told(visited.GetGpuInstanceId())))
	computeInstance := told(gpuInstance.GetComputeInstanceById(told(visited.GetComputeInstanceId())))
	gpuInfo, computeInfo := told(gpuInstance.GetInfo()), told(computeInstance.GetInfo())
	return mig{
		Index:     index,
		UUID:      told(visited.GetUUID()),
		Profile:   must(visited.GetProfile()).String(),
		MemoryMiB: attributes.MemorySizeMB,
		Engines: engines{
			Multiprocessors: attributes.MultiprocessorCount,
			CopyEngines:     attributes.SharedCopyEngineCount,
			Decoders:        attributes.SharedDecoderCount,
			Encoders:        attributes.SharedEncoderCount,
			JpegEngines:     attributes.SharedJpegCount,
			OfaEngines:      attributes.SharedOfaCount,
		},
		GpuInstance: instance{gpuInfo.Id, gpuInfo.ProfileId, placeOf(gpuInfo.Placement)},
		ComputeInstance: instance{
			computeInfo.Id, computeInfo.ProfileId, placeOf(nvml.GpuInstancePlacement(computeInfo.Placement)),
		},
	}
}
