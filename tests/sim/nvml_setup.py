"""What only NVML sets up on a node: MIG devices, memory limits of cgroups."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_uint, c_uint64, c_void_p
from pathlib import Path

from gpusharing import sim

NO_LIMIT = 2**64 - 1


class _Placement(ctypes.Structure):
    _fields_ = (("start", c_uint), ("size", c_uint))


class _MemoryLimits(ctypes.Structure):
    """Of both calls; the one that sets does not look at the last field."""

    _fields_ = (("name_space", c_char_p), ("soft", c_uint64), ("hard", c_uint64), ("used", c_uint64))


def _open(node: sim.SimNode, gpu: int) -> tuple[ctypes.CDLL, c_void_p]:
    library = ctypes.CDLL(str(node.library))
    device = c_void_p()
    assert library.nvmlInit_v2() == 0
    assert library.nvmlDeviceGetHandleByIndex_v2(gpu, byref(device)) == 0
    return library, device


def make_mig_devices(node: sim.SimNode, gpu: int, instances: Sequence[tuple[int, int, int, int]]) -> list[str]:
    """Their UUIDs. Each is given by its profile's id, start, size, and the id of its compute instance's profile."""
    library, device = _open(node, gpu)
    activation = c_uint()
    assert library.nvmlDeviceSetMigMode(device, 1, byref(activation)) == activation.value == 0
    uuids: list[str] = []
    for profile, start, size, compute_profile in instances:
        before = _uuids(node, gpu)
        gpu_instance, compute_instance = c_void_p(), c_void_p()
        assert not library.nvmlDeviceCreateGpuInstanceWithPlacement(
            device, profile, byref(_Placement(start, size)), byref(gpu_instance)
        )
        assert not library.nvmlGpuInstanceCreateComputeInstance(gpu_instance, compute_profile, byref(compute_instance))
        uuids += _uuids(node, gpu) - before
    return uuids


def set_memory_limits(node: sim.SimNode, gpu: int, cgroup: Path, hard: int) -> None:
    library, device = _open(node, gpu)
    limits = _MemoryLimits(os.fsencode(cgroup), 0, hard)
    assert library.nvmlDeviceSetMemoryLimits_v1(device, byref(limits)) == 0


def memory_used(node: sim.SimNode, gpu: int, cgroup: Path) -> int:
    library, device = _open(node, gpu)
    limits = _MemoryLimits(os.fsencode(cgroup))
    assert library.nvmlDeviceGetMemoryLimits_v1(device, byref(limits)) == 0
    return int(limits.used)


def _uuids(node: sim.SimNode, gpu: int) -> set[str]:
    return {
        compute_instance.uuid
        for gpu_instance in node.gpus()[gpu].gpu_instances
        for compute_instance in gpu_instance.compute_instances
    }
