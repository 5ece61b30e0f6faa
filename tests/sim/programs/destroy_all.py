"""Destroys all MIG instances of the first GPU and prints their UUIDs."""

from __future__ import annotations

import json
from ctypes import byref, c_uint

import pynvml as nvml


def main() -> None:
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    uuids = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nvml.NVMLError_NotFound:
            continue
        uuids.append(nvml.nvmlDeviceGetUUID(device))
        instance = nvml.nvmlDeviceGetGpuInstanceById(gpu, nvml.nvmlDeviceGetGpuInstanceId(device))
        compute_id = nvml.nvmlDeviceGetComputeInstanceId(device)
        nvml.nvmlComputeInstanceDestroy(nvml.nvmlGpuInstanceGetComputeInstanceById(instance, compute_id))
        nvml.nvmlGpuInstanceDestroy(instance)
    count, array = c_uint(0), (nvml.c_nvmlGpuInstance_t * 7)()
    nvml.nvmlDeviceGetGpuInstances(gpu, 19, array, byref(count))
    print(json.dumps(uuids + ["left over"] * count.value))


main()
