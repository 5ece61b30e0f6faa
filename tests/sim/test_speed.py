"""How long the simulation takes: benches are to measure what runs on it. Best of many, because machines are busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from ctypes import byref, c_uint, c_void_p, create_string_buffer
from pathlib import Path

import pynvml as nvml
import pytest

from gpusharing import sim
from sim import calls
from sim.conftest import UseNvml

ROUNDS = 200

pytestmark = pytest.mark.usefixtures("root")


@pytest.fixture
def node(tmp_path: Path, use_nvml: UseNvml) -> sim.SimNode:
    node = sim.create(tmp_path / "node", "H100-80GB:8", driver="615")
    use_nvml(node)
    return node


def best(action: Callable[[], object], *, repeat: int) -> float:
    """Seconds."""
    times = []
    for _ in range(repeat):
        before = time.perf_counter()
        action()
        times.append(time.perf_counter() - before)
    return min(times)


def test_calls(node: sim.SimNode) -> None:
    """At most 2 us each, without what ctypes itself takes."""
    gpu = calls.enable_mig()
    instance = calls.place(gpu, "3g.40gb", 4)
    compute = calls.fill(instance)
    device = calls.device_of(compute)
    uuid = nvml.nvmlDeviceGetUUID(device).encode()
    text, number, handle = create_string_buffer(512), c_uint(), c_void_p()
    profile = nvml.c_nvmlGpuInstanceProfileInfo_v2_t()
    library = nvml.nvmlLib
    measured = {
        "nvmlDeviceGetCount_v2": (byref(number),),
        "nvmlDeviceGetHandleByIndex_v2": (7, byref(handle)),
        "nvmlDeviceGetHandleByUUID": (uuid, byref(handle)),
        "nvmlDeviceGetUUID": (device, text, 96),
        "nvmlDeviceGetName": (device, text, 96),
        "nvmlDeviceGetPciInfo_v3": (gpu, text),
        "nvmlDeviceGetMemoryInfo": (gpu, text),
        "nvmlDeviceGetMigMode": (gpu, byref(number), byref(number)),
        "nvmlDeviceGetComputeRunningProcesses_v3": (gpu, byref(number), None),
        "nvmlDeviceGetGpuInstanceProfileInfoV": (gpu, 2, byref(profile)),
        "nvmlDeviceGetMigDeviceHandleByIndex": (gpu, 0, byref(handle)),
        "nvmlDeviceGetAttributes_v2": (device, text),
        "nvmlGpuInstanceGetInfo": (instance, text),
        "nvmlComputeInstanceGetInfo_v2": (compute, text),
        "nvmlDeviceGetFieldValues": (gpu, 1, text),
    }

    def repeated(function: Callable[..., int], arguments: tuple[object, ...]) -> float:
        def run() -> None:
            for _ in range(ROUNDS):
                function(*arguments)

        return best(run, repeat=50) / ROUNDS * 1e6

    idle = repeated(library.nvmlErrorString, (0,))
    microseconds = {name: repeated(library[name], arguments) - idle for name, arguments in measured.items()}
    assert {name: each for name, each in microseconds.items() if each > 2} == {}


def test_mig_round(node: sim.SimNode) -> None:
    """A GPU instance and a compute instance, made and destroyed: at most 2 ms."""
    gpu = calls.enable_mig()
    placement = nvml.c_nvmlGpuInstancePlacement_t(3, 1)

    def run() -> None:
        instance = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, 19, byref(placement))
        compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
        nvml.nvmlComputeInstanceDestroy(compute)
        nvml.nvmlGpuInstanceDestroy(instance)

    assert best(run, repeat=100) < 0.002


def test_walk_over_a_full_node(node: sim.SimNode) -> None:
    """8 GPUs with 56 MIG devices, through nvidia-ml-py, which takes most of it: at most 20 ms."""
    for index in range(8):
        gpu = calls.enable_mig(index)
        for start in range(7):
            calls.mig_device(gpu, "1g.10gb", start)

    def walk() -> int:
        seen = 0
        for index in range(nvml.nvmlDeviceGetCount()):
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
            nvml.nvmlDeviceGetMemoryInfo(gpu)
            for device in calls.mig_devices(gpu).values():
                nvml.nvmlDeviceGetUUID(device)
                nvml.nvmlDeviceGetAttributes(device)
                nvml.nvmlDeviceGetGpuInstanceId(device)
                nvml.nvmlDeviceGetComputeInstanceId(device)
                nvml.nvmlDeviceGetMemoryInfo(device)
                seen += 1
        return seen

    assert walk() == 56
    assert best(walk, repeat=20) < 0.020
