"""As an ordinary user: which calls on the MIG device of the first GPU are refused, and what the others answer."""

from __future__ import annotations

import json
import os
from ctypes import byref, c_uint

import pynvml as nvml


def main() -> None:
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    instance = nvml.nvmlDeviceGetGpuInstanceById(gpu, nvml.nvmlDeviceGetGpuInstanceId(device))
    compute = nvml.nvmlGpuInstanceGetComputeInstanceById(instance, nvml.nvmlDeviceGetComputeInstanceId(device))
    placement, count, array = nvml.c_nvmlGpuInstancePlacement_t(4, 1), c_uint(0), (nvml.c_nvmlGpuInstance_t * 7)()
    os.seteuid(65534)
    attempts = (
        (nvml.nvmlDeviceSetMigMode, gpu, 0),
        (nvml.nvmlDeviceCreateGpuInstance, gpu, 19),
        (nvml.nvmlDeviceCreateGpuInstanceWithPlacement, gpu, 19, byref(placement)),
        (nvml.nvmlDeviceGetGpuInstancePossiblePlacements, gpu, 19, None, byref(count)),
        (nvml.nvmlDeviceGetGpuInstanceRemainingCapacity, gpu, 19),
        (nvml.nvmlDeviceGetGpuInstances, gpu, 19, array, byref(count)),
        (nvml.nvmlDeviceGetGpuInstanceById, gpu, 3),
        (nvml.nvmlGpuInstanceDestroy, instance),
        (nvml.nvmlGpuInstanceCreateComputeInstance, instance, 0),
        (nvml.nvmlGpuInstanceGetComputeInstanceById, instance, 0),
        (nvml.nvmlComputeInstanceDestroy, compute),
        (nvml.nvmlDeviceGetMemoryInfo, gpu),
        (nvml.nvmlDeviceGetComputeRunningProcesses, gpu),
    )
    refused = {}
    for call, *arguments in attempts:
        try:
            call(*arguments)
        except nvml.NVMLError as error:
            refused[call.__name__] = error.value
    report = {
        "refused": refused,
        "mode": nvml.nvmlDeviceGetMigMode(gpu),
        "memory of the device": nvml.nvmlDeviceGetMemoryInfo(device).total,
        "processes of the device": nvml.nvmlDeviceGetComputeRunningProcesses(device),
    }
    print(json.dumps(report))


main()
