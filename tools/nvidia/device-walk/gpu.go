package main

import (
	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type gpu struct {
	Index             int       `json:"index"`
	UUID              string    `json:"uuid"`
	Minor             int       `json:"minor"`
	ProductName       string    `json:"productName"`
	Brand             string    `json:"brand"`
	Architecture      string    `json:"architecture"`
	MemoryMiB         uint64    `json:"memoryMiB"`
	ComputeCapability string    `json:"computeCapability"`
	PCIBusID          string    `json:"pciBusID"`
	AddressingMode    string    `json:"addressingMode"`
	Coherent          bool      `json:"coherent"`
	MigCapable        bool      `json:"migCapable"`
	MigEnabled        bool      `json:"migEnabled"`
	Profiles          []profile `json:"profiles"`
	MigDevices        []mig     `json:"migDevices"`
}

type profile struct {
	ID         uint32  `json:"id"`
	Name       string  `json:"name"`
	Slices     uint32  `json:"slices"`
	MemoryMiB  uint64  `json:"memoryMiB"`
	Engines    engines `json:"engines"`
	Placements []place `json:"placements"`
}

type engines struct {
	Multiprocessors uint32 `json:"multiprocessors"`
	CopyEngines     uint32 `json:"copyEngines"`
	Decoders        uint32 `json:"decoders"`
	Encoders        uint32 `json:"encoders"`
	JpegEngines     uint32 `json:"jpegEngines"`
	OfaEngines      uint32 `json:"ofaEngines"`
}

type place struct {
	Start uint32 `json:"start"`
	Size  uint32 `json:"size"`
}

func describe(index int, visited device.Device) gpu {
	found := gpu{
		Index:             index,
		UUID:              told(visited.GetUUID()),
		Minor:             told(visited.GetMinorNumber()),
		ProductName:       told(visited.GetName()),
		Brand:             must(visited.GetBrandAsString()),
		Architecture:      must(visited.GetArchitectureAsString()),
		MemoryMiB:         told(visited.GetMemoryInfo()).Total >> 20,
		ComputeCapability: must(visited.GetCudaComputeCapabilityAsString()),
		PCIBusID:          must(visited.GetPCIBusID()),
		AddressingMode:    must(visited.GetAddressingModeAsString()),
		Coherent:          must(visited.IsCoherent()),
		MigCapable:        must(visited.IsMigCapable()),
		MigEnabled:        must(visited.IsMigEnabled()),
		Profiles:          []profile{},
		MigDevices:        []mig{},
	}
	check(visited.VisitMigProfiles(func(visitedProfile device.MigProfile) error {
		// One for each kind of compute instance: these fill the whole GPU instance, the others are parts of it.
		if info := visitedProfile.GetInfo(); info.C == info.G {
			found.add(profileOf(visited, visitedProfile))
		}
		return nil
	}))
	check(visited.VisitMigDevices(func(index int, instance device.MigDevice) error {
		found.MigDevices = append(found.MigDevices, describeMig(index, visited, instance))
		return nil
	}))
	return found
}

// add leaves out what is there: some GPU instances can be filled by compute instances of two kinds.
func (found *gpu) add(wanted profile) {
	for _, known := range found.Profiles {
		if known.ID == wanted.ID {
			return
		}
	}
	found.Profiles = append(found.Profiles, wanted)
}

func profileOf(visited device.Device, visitedProfile device.MigProfile) profile {
	info := told(visited.GetGpuInstanceProfileInfo(visitedProfile.GetInfo().GIProfileID))
	placements := []place{}
	for _, placement := range told(visited.GetGpuInstancePossiblePlacements(&info)) {
		placements = append(placements, placeOf(placement))
	}
	return profile{
		ID:         info.Id,
		Name:       visitedProfile.String(),
		Slices:     info.SliceCount,
		MemoryMiB:  info.MemorySizeMB,
		Placements: placements,
		Engines: engines{
			Multiprocessors: info.MultiprocessorCount,
			CopyEngines:     info.CopyEngineCount,
			Decoders:        info.DecoderCount,
			Encoders:        info.EncoderCount,
			JpegEngines:     info.JpegCount,
			OfaEngines:      info.OfaCount,
		},
	}
}

func placeOf(placement nvml.GpuInstancePlacement) place {
	return place{Start: placement.Start, Size: placement.Size}
}
