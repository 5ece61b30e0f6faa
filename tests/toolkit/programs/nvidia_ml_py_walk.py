"""What device-walk prints, found out with unmodified nvidia-ml-py; names are spelled as go-nvlib does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from ctypes import byref, c_uint
from typing import Any

import pynvml as nvml

BRANDS = {nvml.NVML_BRAND_NVIDIA: "Nvidia", nvml.NVML_BRAND_TESLA: "Tesla", nvml.NVML_BRAND_NVIDIA_RTX: "NvidiaRTX"}
ARCHITECTURES = {
    nvml.NVML_DEVICE_ARCH_TURING: "Turing",
    nvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
    nvml.NVML_DEVICE_ARCH_ADA: "Ada Lovelace",
    nvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
    nvml.NVML_DEVICE_ARCH_BLACKWELL: "Blackwell",
}
ADDRESSING_MODES = {
    nvml.NVML_DEVICE_ADDRESSING_MODE_NONE: "None",
    nvml.NVML_DEVICE_ADDRESSING_MODE_HMM: "HMM",
    nvml.NVML_DEVICE_ADDRESSING_MODE_ATS: "ATS",
}


def gpu(index: int) -> dict[str, Any]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    uuid = nvml.nvmlDeviceGetUUID(handle)
    pci = nvml.nvmlDeviceGetPciInfo(nvml.nvmlDeviceGetHandleByUUID(uuid))
    addressing_mode = nvml.nvmlDeviceGetAddressingMode(handle)
    mig_mode = mig_mode_of(handle)
    return {
        "index": nvml.nvmlDeviceGetIndex(handle),
        "uuid": uuid,
        "minor": nvml.nvmlDeviceGetMinorNumber(handle),
        "productName": nvml.nvmlDeviceGetName(handle),
        "brand": BRANDS[nvml.nvmlDeviceGetBrand(handle)],
        "architecture": ARCHITECTURES[nvml.nvmlDeviceGetArchitecture(handle)],
        "memoryMiB": nvml.nvmlDeviceGetMemoryInfo(handle).total >> 20,
        "computeCapability": "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle)),
        "pciBusID": f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0",
        "addressingMode": ADDRESSING_MODES[addressing_mode],
        "coherent": addressing_mode == nvml.NVML_DEVICE_ADDRESSING_MODE_ATS,
        "migCapable": mig_mode is not None,
        "migEnabled": mig_mode == 1,
        "profiles": [profile(handle, info) for info in profiles(handle)] if mig_mode is not None else [],
        "migDevices": list(mig_devices(handle)) if mig_mode == 1 else [],
    }


def mig_mode_of(handle: Any) -> int | None:
    try:
        current, pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError_NotSupported:
        return None
    assert current == pending
    return int(current)


def profiles(handle: Any) -> Iterator[Any]:
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            yield nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, version=2)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            continue


def profile(handle: Any, info: Any) -> dict[str, Any]:
    count = c_uint(0)
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, info.id, None, byref(count))
    placements = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, info.id, placements, byref(count))
    return {
        "id": info.id,
        "name": info.name,
        "slices": info.sliceCount,
        "memoryMiB": info.memorySizeMB,
        "engines": {
            "multiprocessors": info.multiprocessorCount,
            "copyEngines": info.copyEngineCount,
            "decoders": info.decoderCount,
            "encoders": info.encoderCount,
            "jpegEngines": info.jpegCount,
            "ofaEngines": info.ofaCount,
        },
        "placements": [place(placement) for placement in placements],
    }


def mig_devices(parent: Any) -> Iterator[dict[str, Any]]:
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(parent)):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, index)
        except nvml.NVMLError_NotFound:
            continue
        yield mig_device(index, parent, handle)


def mig_device(index: int, parent: Any, handle: Any) -> dict[str, Any]:
    uuid = nvml.nvmlDeviceGetUUID(handle)
    by_uuid = nvml.nvmlDeviceGetHandleByUUID(uuid)
    owner = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(by_uuid)
    assert nvml.nvmlDeviceGetUUID(owner) == nvml.nvmlDeviceGetUUID(parent)
    attributes = nvml.nvmlDeviceGetAttributes(handle)
    gpu_instance = nvml.nvmlDeviceGetGpuInstanceById(parent, nvml.nvmlDeviceGetGpuInstanceId(handle))
    compute_instance = nvml.nvmlGpuInstanceGetComputeInstanceById(
        gpu_instance, nvml.nvmlDeviceGetComputeInstanceId(handle)
    )
    gpu_info = nvml.nvmlGpuInstanceGetInfo(gpu_instance)
    compute_info = nvml.nvmlComputeInstanceGetInfo(compute_instance)
    return {
        "index": index,
        "uuid": uuid,
        # NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb
        "profile": nvml.nvmlDeviceGetName(handle).rpartition(" ")[2],
        "memoryMiB": attributes.memorySizeMB,
        "engines": {
            "multiprocessors": attributes.multiprocessorCount,
            "copyEngines": attributes.sharedCopyEngineCount,
            "decoders": attributes.sharedDecoderCount,
            "encoders": attributes.sharedEncoderCount,
            "jpegEngines": attributes.sharedJpegCount,
            "ofaEngines": attributes.sharedOfaCount,
        },
        "gpuInstance": {"id": gpu_info.id, "profileID": gpu_info.profileId, "place": place(gpu_info.placement)},
        "computeInstance": {
            "id": compute_info.id,
            "profileID": compute_info.profileId,
            "place": place(compute_info.placement),
        },
    }


def place(placement: Any) -> dict[str, int]:
    return {"start": placement.start, "size": placement.size}


def main() -> None:
    nvml.nvmlInit()
    print(json.dumps([gpu(index) for index in range(nvml.nvmlDeviceGetCount())]))
    nvml.nvmlShutdown()


main()
