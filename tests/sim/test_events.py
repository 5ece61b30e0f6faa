"""Events, as a program that watches the health of GPUs waits for them."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from ctypes import byref
from pathlib import Path

import pynvml as nvml
import pytest

from gpusharing import sim
from gpusharing.sim import faults
from sim import calls
from sim.conftest import PROGRAMS, UseNvml

INVALID_ARGUMENT, NOT_SUPPORTED, TIMEOUT, GPU_IS_LOST = 2, 3, 10, 15
NONE = 0xFFFFFFFF
XID, MIG = 0x8, 0x100


@pytest.fixture
def node(tmp_path: Path, use_nvml: UseNvml) -> sim.SimNode:
    node = sim.create(tmp_path / "node", "H100-80GB:2,L4")
    use_nvml(node)
    return node


@pytest.fixture
def events(node: sim.SimNode) -> calls.Handle:
    """A set for XIDs of all GPUs."""
    created = nvml.nvmlEventSetCreate()
    for index in range(3):
        nvml.nvmlDeviceRegisterEvents(calls.gpu(index), XID, created)
    return created


def wait(events: calls.Handle, milliseconds: int = 0) -> tuple[int, int, int, int, int] | None:
    """Index of the GPU, type, data, GPU instance, compute instance."""
    try:
        data = nvml.nvmlEventSetWait_v2(events, milliseconds)
    except nvml.NVMLError_Timeout:
        return None
    index = nvml.nvmlDeviceGetIndex(data.device)
    return index, data.eventType, data.eventData, data.gpuInstanceId, data.computeInstanceId


def test_xids(node: sim.SimNode, events: calls.Handle) -> None:
    first, _, third = (gpu.uuid for gpu in node.gpus())
    assert wait(events) is None
    node.inject(faults.Xid(first, 48))
    node.inject(faults.Xid(third, 31))
    node.inject(faults.Xid(first, 94, gpu_instance=2, compute_instance=0))
    assert wait(events) == (0, XID, 48, NONE, NONE)
    assert wait(events) == (2, XID, 31, NONE, NONE)
    assert wait(events) == (0, XID, 94, 2, 0)
    assert wait(events) is None


def test_first_version(node: sim.SimNode, events: calls.Handle) -> None:
    node.inject(faults.Xid(node.gpus()[1].uuid, 79))
    data = (ctypes.c_uint64 * 4)(0, 0, 0, 7)
    assert nvml.nvmlLib.nvmlEventSetWait(events, byref(data), 0) == 0
    assert list(data[1:]) == [XID, 79, 7]


def test_only_what_was_registered(node: sim.SimNode) -> None:
    events = nvml.nvmlEventSetCreate()
    gpu = calls.gpu(0)
    node.inject(faults.Xid(node.gpus()[0].uuid, 1))
    nvml.nvmlDeviceRegisterEvents(gpu, MIG, events)
    node.inject(faults.Xid(node.gpus()[0].uuid, 2))
    nvml.nvmlDeviceRegisterEvents(gpu, XID, events)
    node.inject(faults.Xid(node.gpus()[1].uuid, 3))
    node.inject(faults.Xid(node.gpus()[0].uuid, 4))
    # That of the type which was added later counts from when the GPU itself was registered.
    assert [wait(events), wait(events), wait(events)] == [(0, XID, 2, NONE, NONE), (0, XID, 4, NONE, NONE), None]


def test_what_cannot_be_registered(node: sim.SimNode, events: calls.Handle) -> None:
    l4 = calls.gpu(2)
    register = nvml.nvmlDeviceRegisterEvents
    assert calls.error_of(register, l4, MIG, events) == NOT_SUPPORTED
    assert calls.error_of(register, l4, XID | MIG, events) == NOT_SUPPORTED
    garbage = ctypes.c_void_p(0x1234)
    assert calls.error_of(register, l4, XID, garbage) == INVALID_ARGUMENT
    assert calls.error_of(nvml.nvmlEventSetWait_v2, garbage, 0) == INVALID_ARGUMENT
    assert calls.error_of(nvml.nvmlEventSetFree, garbage) == INVALID_ARGUMENT


def test_freed_set(node: sim.SimNode, events: calls.Handle) -> None:
    other = nvml.nvmlEventSetCreate()
    nvml.nvmlEventSetFree(events)
    assert calls.error_of(nvml.nvmlEventSetWait_v2, events, 0) == INVALID_ARGUMENT
    assert calls.error_of(nvml.nvmlEventSetFree, events) == INVALID_ARGUMENT
    assert calls.error_of(nvml.nvmlEventSetWait_v2, other, 0) == TIMEOUT


@pytest.mark.usefixtures("root")
def test_changes_of_mig(node: sim.SimNode) -> None:
    """Also those that another program makes."""
    events = nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(calls.gpu(0), MIG | XID, events)
    calls.mig_device(calls.enable_mig(0), "1g.10gb", 0)
    for _ in ("mode", "GPU instance", "compute instance"):
        event = wait(events)
        assert event is not None
        assert event[:3] == (0, MIG, 0)
    assert wait(events) is None


def test_time_is_kept(events: calls.Handle) -> None:
    before = time.monotonic()
    assert wait(events, 300) is None
    assert 0.29 < time.monotonic() - before < 10


def test_injection_from_another_process_wakes(node: sim.SimNode, events: calls.Handle) -> None:
    """Faster than by looking again now and then."""
    uuid = node.gpus()[0].uuid
    delays = []
    command = [sys.executable, str(PROGRAMS / "inject_xids.py"), str(node.directory), uuid, "10"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as injector:
        for _ in range(10):
            event = wait(events, 20_000)
            now = time.monotonic()
            assert event is not None
            delays.append(now - event[2] / 1000 % 1_000_000)
        injector.communicate(timeout=20)
    # Every tenth of a second it looks without being woken: one in ten would be as soon by chance.
    assert sorted(delays)[2] < 0.01


def test_other_calls_go_on_meanwhile(node: sim.SimNode, events: calls.Handle) -> None:
    gpu = calls.gpu(0)
    waiting = threading.Thread(target=wait, args=[events, 60_000])
    waiting.start()
    for _ in range(100):
        nvml.nvmlDeviceGetName(gpu)
    assert waiting.is_alive()
    node.inject(faults.Xid(node.gpus()[0].uuid, 1))
    waiting.join(30)
    assert not waiting.is_alive()


def test_lost_gpu(node: sim.SimNode, events: calls.Handle) -> None:
    """XID 79 first; from then on the wait itself fails."""
    node.inject(faults.GpuLost(node.gpus()[1].uuid))
    data = nvml.nvmlEventSetWait_v2(events, 0)
    assert (data.eventType, data.eventData) == (XID, 79)
    assert calls.error_of(nvml.nvmlEventSetWait_v2, events, 1000) == GPU_IS_LOST
    node.clear()
    assert wait(events) is None


def test_more_events_than_are_kept(node: sim.SimNode, events: calls.Handle) -> None:
    uuid = node.gpus()[0].uuid
    for number in range(300):
        node.inject(faults.Xid(uuid, number, recovery=0))
    kept = []
    while event := wait(events):
        kept.append(event[2])
    assert kept == list(range(44, 300))
