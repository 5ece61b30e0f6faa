"""What tests do with MIG through unmodified nvidia-ml-py, and what they then see."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from ctypes import byref, c_uint
from pathlib import Path
from typing import Any

import pynvml as nvml

from gpusharing import sim

Handle = Any
"""Of a GPU, a MIG device or an instance."""


def error_of(call: Callable[..., object], *arguments: object) -> int:
    """The code that a call fails with; 0 if it does not."""
    try:
        call(*arguments)
    except nvml.NVMLError as error:
        return int(error.value)
    return 0


def gpu(index: int = 0) -> Handle:
    return nvml.nvmlDeviceGetHandleByIndex(index)


def enable_mig(index: int = 0) -> Handle:
    """The handle is good after the change, since this process made it."""
    handle = gpu(index)
    assert nvml.nvmlDeviceSetMigMode(handle, 1) == 0
    assert nvml.nvmlDeviceGetMigMode(handle) == [1, 1]
    return handle


def profiles(handle: Handle, version: int = 2) -> Iterator[Any]:
    for number in range(1000):
        try:
            yield nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, version=version)
        except nvml.NVMLError_NotSupported:
            continue
        except nvml.NVMLError_InvalidArgument:
            return


def profile(handle: Handle, name: str) -> Any:
    return next(info for info in profiles(handle) if info.name == name)


def placements(handle: Handle, profile_id: int) -> list[tuple[int, int]]:
    count = c_uint(0)
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, None, byref(count))
    array = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile_id, array, byref(count))
    return [(placement.start, placement.size) for placement in array]


def place(handle: Handle, name: str, start: int) -> Handle:
    """A GPU instance of this profile at this start."""
    wanted = profile(handle, name)
    size = next(size for _, size in placements(handle, wanted.id))
    placement = nvml.c_nvmlGpuInstancePlacement_t(start, size)
    return nvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, wanted.id, byref(placement))


def fill(gpu_instance: Handle) -> Handle:
    """A compute instance as large as its GPU instance."""
    parent = nvml.nvmlGpuInstanceGetInfo(gpu_instance)
    slices = next(info.sliceCount for info in profiles(parent.device) if info.id == parent.profileId)
    return nvml.nvmlGpuInstanceCreateComputeInstance(gpu_instance, {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}[slices])


def device_of(compute_instance: Handle) -> Handle:
    return nvml.nvmlComputeInstanceGetInfo(compute_instance).device


def mig_device(handle: Handle, name: str, start: int) -> Handle:
    return device_of(fill(place(handle, name, start)))


def gpu_instances(handle: Handle) -> list[Handle]:
    found = []
    for info in profiles(handle):
        count = c_uint(0)
        array = (nvml.c_nvmlGpuInstance_t * info.instanceCount)()
        nvml.nvmlDeviceGetGpuInstances(handle, info.id, array, byref(count))
        found += array[: count.value]
    return found


def mig_devices(handle: Handle) -> dict[int, Handle]:
    """By their indexes."""
    found = {}
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            found[index] = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError_NotFound:
            continue
    return found


def capability_files(directory: Path) -> dict[str, int]:
    """What is below proc/driver/nvidia/capabilities, with the minor numbers."""
    capabilities = directory / "proc/driver/nvidia/capabilities"
    return {
        str(file.relative_to(capabilities)): int(file.read_text().split()[1])
        for file in capabilities.glob("gpu*/**/access")
    }


def expect_whole(node: sim.SimNode) -> None:
    """What the state, the capabilities and the device nodes of the only GPU say is the same."""
    (gpu,) = node.gpus()
    taken = [
        slice_ for instance in gpu.gpu_instances for slice_ in range(instance.start, instance.start + instance.size)
    ]
    assert len(taken) == len(set(taken))
    expected = {f"gpu0/mig/gi{instance.id}/access" for instance in gpu.gpu_instances}
    for instance in gpu.gpu_instances:
        expected |= {f"gpu0/mig/gi{instance.id}/ci{each.id}/access" for each in instance.compute_instances}
    files = capability_files(node.directory)
    assert files.keys() == expected
    devices = {path.name for path in (node.dev / "nvidia-caps").iterdir()}
    assert devices == {f"nvidia-cap{minor}" for minor in (1, 2, *files.values())}
    assert stat.S_IMODE((node.dev / "nvidia0").stat().st_mode) == 0o666
