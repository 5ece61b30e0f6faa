"""Creates and destroys MIG instances on the first GPU without end, to be killed; SEED decides which."""

from __future__ import annotations

import random
import sys
from ctypes import byref, c_uint
from typing import Any

import pynvml as nvml

# Profile ids and where they can begin, with the profile of a compute instance of full size.
PLACES = [
    *((19, start, 1, 0) for start in range(7)),
    *((14, start, 2, 1) for start in (0, 2, 4)),
    *((9, start, 4, 2) for start in (0, 4)),
]


def instances(gpu: Any) -> list[Any]:
    found = []
    for profile in (19, 14, 9):
        count, array = c_uint(0), (nvml.c_nvmlGpuInstance_t * 7)()
        nvml.nvmlDeviceGetGpuInstances(gpu, profile, array, byref(count))
        found += array[: count.value]
    return found


def step(gpu: Any, chance: random.Random) -> None:
    if chance.random() < 0.5:
        profile, start, size, compute = chance.choice(PLACES)
        placement = nvml.c_nvmlGpuInstancePlacement_t(start, size)
        instance = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, byref(placement))
        nvml.nvmlGpuInstanceCreateComputeInstance(instance, compute)
    elif there := instances(gpu):
        instance = chance.choice(there)
        for number in range(8):
            try:
                nvml.nvmlComputeInstanceDestroy(nvml.nvmlGpuInstanceGetComputeInstanceById(instance, number))
            except nvml.NVMLError_NotFound:
                continue
        nvml.nvmlGpuInstanceDestroy(instance)


def main() -> None:
    chance = random.Random(sys.argv[1])  # noqa: S311
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    print("ready", flush=True)
    while True:
        try:
            step(gpu, chance)
        except nvml.NVMLError as error:
            # Somebody else was faster.
            if error.value not in (
                nvml.NVML_ERROR_INSUFFICIENT_RESOURCES,
                nvml.NVML_ERROR_INVALID_ARGUMENT,
                nvml.NVML_ERROR_IN_USE,
            ):
                raise


main()
