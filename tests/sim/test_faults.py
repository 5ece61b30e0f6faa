"""Faults of calls; those of GPUs are tested where the GPU's behaviour is."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import threading
import time
from ctypes import byref, c_uint
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest

from gpusharing import sim
from gpusharing.sim import faults, store
from gpusharing.sim.faults import CallFails, CallHangs, CallLies
from sim import calls
from sim.conftest import Smi, UseNvml

NOT_SUPPORTED, INSUFFICIENT_RESOURCES, UNKNOWN = 3, 23, 999

UNKNOWN_GPU = "GPU-00000000-0000-0000-0000-000000000000"


@pytest.fixture
def node(tmp_path: Path, use_nvml: UseNvml) -> sim.SimNode:
    node = sim.create(tmp_path / "node", "H100-80GB:2", driver="615")
    use_nvml(node)
    return node


@pytest.mark.parametrize("code", [1, 3, 6, 7, 15, 19, 23, 27, 999])
def test_any_code(node: sim.SimNode, code: int) -> None:
    node.inject(CallFails("nvmlDeviceGetMigMode", code))
    assert calls.error_of(nvml.nvmlDeviceGetMigMode, calls.gpu()) == code
    node.clear()
    assert nvml.nvmlDeviceGetMigMode(calls.gpu()) == [0, 0]


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [
        ("nvmlDeviceGetMemoryInfo", {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"}),
        ("nvmlDeviceGetMemoryInfo_v2", {"nvmlDeviceGetMemoryInfo_v2"}),
        ("nvmlDeviceGetCount", {"nvmlDeviceGetCount_v2"}),
        ("nvmlDeviceGetGpuInstanceProfileInfo", {"nvmlDeviceGetGpuInstanceProfileInfoV"}),
        ("nvmlDeviceGetName", {"nvmlDeviceGetName"}),
        ("nvmlDevice", set()),
        ("nvmlDeviceGetNam", set()),
        (
            "*",
            {
                "nvmlDeviceGetMemoryInfo",
                "nvmlDeviceGetMemoryInfo_v2",
                "nvmlDeviceGetCount_v2",
                "nvmlDeviceGetGpuInstanceProfileInfoV",
                "nvmlDeviceGetName",
            },
        ),
    ],
)
def test_which_function(node: sim.SimNode, pattern: str, hit: set[str]) -> None:
    gpu = calls.gpu()
    all_calls: dict[str, tuple[Any, ...]] = {
        "nvmlDeviceGetMemoryInfo": (nvml.nvmlDeviceGetMemoryInfo, gpu),
        "nvmlDeviceGetMemoryInfo_v2": (nvml.nvmlDeviceGetMemoryInfo, gpu, nvml.nvmlMemory_v2),
        "nvmlDeviceGetCount_v2": (nvml.nvmlDeviceGetCount,),
        "nvmlDeviceGetGpuInstanceProfileInfoV": (nvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu, 0, 2),
        "nvmlDeviceGetName": (nvml.nvmlDeviceGetName, gpu),
    }
    node.inject(CallFails(pattern, UNKNOWN))
    assert {name for name, (call, *arguments) in all_calls.items() if calls.error_of(call, *arguments)} == hit


def test_init(node: sim.SimNode) -> None:
    node.inject(CallFails("nvmlInitWithFlags", 9, times=1))
    assert calls.error_of(nvml.nvmlInit) == 9
    assert calls.error_of(nvml.nvmlInit) == 0


def test_one_gpu(node: sim.SimNode) -> None:
    first, second = (gpu.uuid for gpu in node.gpus())
    node.inject(CallFails("*", UNKNOWN, gpu=second))
    assert nvml.nvmlDeviceGetName(calls.gpu(0))
    assert nvml.nvmlDeviceGetCount() == 2
    assert calls.error_of(nvml.nvmlDeviceGetHandleByIndex, 1) == UNKNOWN
    assert calls.error_of(nvml.nvmlDeviceGetHandleByUUID, second) == UNKNOWN
    assert calls.error_of(nvml.nvmlDeviceGetHandleByUUID, first) == 0
    with pytest.raises(sim.SimError, match="no GPU"):
        node.inject(CallFails("*", UNKNOWN, gpu=UNKNOWN_GPU))


@pytest.mark.usefixtures("root")
def test_gpu_of_an_instance(node: sim.SimNode) -> None:
    first, second = (gpu.uuid for gpu in node.gpus())
    instance = calls.place(calls.enable_mig(0), "1g.10gb", 0)
    node.inject(CallFails("nvmlGpuInstanceGetInfo", UNKNOWN, gpu=second))
    assert calls.error_of(nvml.nvmlGpuInstanceGetInfo, instance) == 0
    node.inject(CallFails("nvmlGpuInstanceGetInfo", UNKNOWN, gpu=first))
    assert calls.error_of(nvml.nvmlGpuInstanceGetInfo, instance) == UNKNOWN


@pytest.mark.parametrize(
    ("after", "times", "expected"),
    [
        (0, None, "xxxxxx"),
        (0, 1, "x....."),
        (2, None, "..xxxx"),
        (2, 2, "..xx.."),
        (0, 0, "......"),
    ],
)
def test_how_often(node: sim.SimNode, after: int, times: int | None, expected: str) -> None:
    gpu = calls.gpu()
    node.inject(CallFails("nvmlDeviceGetName", UNKNOWN, after=after, times=times))
    for _ in range(3):
        nvml.nvmlDeviceGetUUID(gpu)
    assert "".join("x" if calls.error_of(nvml.nvmlDeviceGetName, gpu) else "." for _ in range(6)) == expected


def test_what_is_present(node: sim.SimNode) -> None:
    """As it could be injected again: with what is left of it."""
    uuid = node.gpus()[1].uuid
    wrong = [
        CallFails("nvmlDeviceGetName", UNKNOWN, gpu=uuid, times=2, after=1),
        CallHangs("nvmlDeviceGetUUID", seconds=0.5),
        faults.RowRemapPending(uuid, failed=True),
        faults.HeldOpen(uuid),
    ]
    for fault in wrong:
        node.inject(fault)
    assert node.faults() == wrong
    for _ in range(2):
        calls.error_of(nvml.nvmlDeviceGetName, calls.gpu(1))
    assert node.faults()[0] == CallFails("nvmlDeviceGetName", UNKNOWN, gpu=uuid, times=1)
    calls.error_of(nvml.nvmlDeviceGetName, calls.gpu(1))
    assert node.faults() == wrong[1:]


def test_clear_one(node: sim.SimNode) -> None:
    gpu = calls.gpu()
    name, uuid = (CallFails(function, UNKNOWN, times=5) for function in ("nvmlDeviceGetName", "nvmlDeviceGetUUID"))
    node.inject(name)
    node.inject(uuid)
    assert calls.error_of(nvml.nvmlDeviceGetName, gpu) == UNKNOWN
    node.clear(name)
    assert calls.error_of(nvml.nvmlDeviceGetName, gpu) == 0
    assert calls.error_of(nvml.nvmlDeviceGetUUID, gpu) == UNKNOWN
    node.clear(name)
    node.clear()
    assert calls.error_of(nvml.nvmlDeviceGetUUID, gpu) == 0


def test_room_for_faults(node: sim.SimNode) -> None:
    for code in range(64):
        node.inject(CallFails("nvmlDeviceGetName", code))
    with pytest.raises(sim.SimError, match="more than 64 faults"):
        node.inject(CallFails("nvmlDeviceGetName", 64))
    node.clear(CallFails("nvmlDeviceGetName", 7))
    node.inject(CallFails("nvmlDeviceGetName", 64))


class TestHangs:
    def test_until_cleared(self, node: sim.SimNode) -> None:
        """The state is not locked meanwhile: other calls, other GPUs and other processes go on."""
        first = node.gpus()[0].uuid
        gpu, other = calls.gpu(0), calls.gpu(1)
        fault = CallHangs("nvmlDeviceGetMemoryInfo", gpu=first)
        node.inject(fault)
        answers: list[object] = []
        thread = threading.Thread(target=lambda: answers.append(nvml.nvmlDeviceGetMemoryInfo(gpu)))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        assert nvml.nvmlDeviceGetMemoryInfo(other).total
        assert nvml.nvmlDeviceGetName(gpu)
        command = [str(node.nvidia_smi), "--query-gpu=name", "--format=csv,noheader", "-i", first]
        assert subprocess.run(command, check=False, timeout=10, stdout=subprocess.DEVNULL).returncode == 0
        assert thread.is_alive()
        node.clear(fault)
        thread.join(5)
        assert len(answers) == 1
        assert calls.error_of(nvml.nvmlDeviceGetMemoryInfo, gpu) == 0

    def test_at_most_so_long(self, node: sim.SimNode) -> None:
        node.inject(CallHangs("nvmlDeviceGetName", seconds=0.3, times=1))
        gpu = calls.gpu()
        durations = []
        for _ in range(6):
            before = time.monotonic()
            assert nvml.nvmlDeviceGetName(gpu)
            durations.append(time.monotonic() - before)
        assert 0.29 < durations[0] < 10
        # The fastest of them, because machines are busy.
        assert min(durations[1:]) < 0.2

    def test_then_fails(self, node: sim.SimNode) -> None:
        node.inject(CallHangs("nvmlDeviceGetName", seconds=0.05))
        node.inject(CallFails("nvmlDeviceGetName", UNKNOWN))
        assert calls.error_of(nvml.nvmlDeviceGetName, calls.gpu()) == UNKNOWN

    def test_killed_meanwhile(self, node: sim.SimNode) -> None:
        node.inject(CallHangs("nvmlDeviceGetName"))
        process = subprocess.Popen([node.nvidia_smi, "-L"], stdout=subprocess.DEVNULL)
        time.sleep(0.2)
        assert process.poll() is None
        process.kill()
        process.wait(5)
        assert nvml.nvmlDeviceGetUUID(calls.gpu())


@pytest.mark.usefixtures("root")
class TestLies:
    """Success, and nothing has happened: not in the state, not in the files, not for other processes."""

    def test_mig_mode(self, node: sim.SimNode) -> None:
        gpu = calls.gpu()
        node.inject(CallLies("nvmlDeviceSetMigMode", times=1))
        assert nvml.nvmlDeviceSetMigMode(gpu, 1) == 0
        assert nvml.nvmlDeviceGetMigMode(gpu) == [0, 0]
        assert nvml.nvmlDeviceSetMigMode(gpu, 1) == 0
        assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]

    def test_compute_mode(self, node: sim.SimNode) -> None:
        node.inject(CallLies("nvmlDeviceSetComputeMode"))
        nvml.nvmlDeviceSetComputeMode(calls.gpu(), 3)
        assert nvml.nvmlDeviceGetComputeMode(calls.gpu()) == 0

    def test_creation(self, node: sim.SimNode) -> None:
        """The handle is of an instance that never was."""
        gpu = calls.enable_mig()
        node.inject(CallLies("nvmlDeviceCreateGpuInstanceWithPlacement"))
        instance = calls.place(gpu, "1g.10gb", 0)
        assert calls.error_of(nvml.nvmlGpuInstanceGetInfo, instance) == 2
        assert calls.gpu_instances(gpu) == []
        assert calls.capability_files(node.directory) == {}
        node.clear()
        calls.mig_device(gpu, "1g.10gb", 0)

    def test_destruction(self, node: sim.SimNode) -> None:
        gpu = calls.enable_mig()
        instance = calls.place(gpu, "1g.10gb", 0)
        compute = calls.fill(instance)
        before = node.gpus(), calls.capability_files(node.directory)
        node.inject(CallLies("nvmlComputeInstanceDestroy"))
        nvml.nvmlComputeInstanceDestroy(compute)
        assert (node.gpus(), calls.capability_files(node.directory)) == before
        assert calls.error_of(nvml.nvmlGpuInstanceDestroy, instance) == 19
        node.clear()
        nvml.nvmlComputeInstanceDestroy(compute)

    def test_what_would_be_refused_is_refused(self, node: sim.SimNode) -> None:
        gpu = calls.enable_mig()
        calls.place(gpu, "1g.10gb", 0)
        node.inject(CallLies("nvmlDeviceCreateGpuInstanceWithPlacement"))
        assert calls.error_of(calls.place, gpu, "1g.10gb", 0) == INSUFFICIENT_RESOURCES


@pytest.mark.usefixtures("root")
class TestPartialCreation:
    def test_left_behind_by_somebody(self, node: sim.SimNode) -> None:
        uuid = node.gpus()[0].uuid
        with pytest.raises(sim.SimError, match="not in MIG mode"):
            node.inject(faults.LoneGpuInstance(uuid, "3g.40gb", 4))
        gpu = calls.enable_mig()
        node.inject(faults.LoneGpuInstance(uuid, "3g.40gb", 4))
        (instance,) = calls.gpu_instances(gpu)
        assert nvml.nvmlGpuInstanceGetInfo(instance).placement.start == 4
        assert calls.mig_devices(gpu) == {}
        assert set(calls.capability_files(node.directory)) == {"gpu0/mig/gi2/access"}
        for profile, start, message in (
            ("3g.40gb", 4, "NVML error 23"),
            ("3g.40gb", 1, "NVML error 2"),
            ("5g.50gb", 0, "no MIG profile"),
        ):
            with pytest.raises(sim.SimError, match=message):
                node.inject(faults.LoneGpuInstance(uuid, profile, start))

    def test_second_step_fails(self, node: sim.SimNode) -> None:
        gpu = calls.enable_mig()
        node.inject(CallFails("nvmlGpuInstanceCreateComputeInstance", INSUFFICIENT_RESOURCES, times=1))
        instance = calls.place(gpu, "1g.10gb", 0)
        assert calls.error_of(nvml.nvmlGpuInstanceCreateComputeInstance, instance, 0) == INSUFFICIENT_RESOURCES
        assert len(node.gpus()[0].gpu_instances) == 1
        nvml.nvmlGpuInstanceDestroy(instance)


def test_time_slice_that_cannot_be_set(node: sim.SimNode, smi: Smi) -> None:
    node.inject(CallFails("gpusharingSimSetTimeslice", NOT_SUPPORTED))
    result = smi("compute-policy", "-i", "0", "--set-timeslice", "1")
    assert result.returncode == NOT_SUPPORTED
    assert "Not Supported" in result.stdout
    assert smi("compute-policy", "-i", "0", "-l").returncode == 0


def test_tool_that_is_missing(node: sim.SimNode, smi: Smi) -> None:
    for _ in range(2):
        node.inject(faults.SmiMissing())
        assert not node.nvidia_smi.exists()
    for _ in range(2):
        node.clear(faults.SmiMissing())
        assert smi("-L").returncode == 0
    node.inject(faults.SmiMissing())
    node.clear()
    assert smi("-L").returncode == 0


def test_mps(node: sim.SimNode) -> None:
    def fault() -> int:
        with store.locked(node.state) as state:
            return int(state.mps_fault)

    for number, condition in enumerate(
        (faults.MpsDoesNotStart(), faults.MpsHangs(), faults.MpsServerDoesNotStart(), faults.MpsLimitsNotApplied()),
        start=1,
    ):
        node.inject(condition)
        assert fault() == number
        node.clear(faults.MpsHangs())
        assert fault() == (0 if number == 2 else number)
        node.clear()
        assert fault() == 0


def _sample(fault: type[faults.Fault], node: sim.SimNode) -> faults.Fault:
    samples: dict[str, Any] = {
        "function": "nvmlDeviceGetName",
        "code": 3,
        "gpu": node.gpus()[0].uuid,
        "xid": 94,
        "profile": "1g.10gb",
        "start": 0,
    }
    required = [field.name for field in dataclasses.fields(fault) if field.default is dataclasses.MISSING]
    return fault(**{name: samples[name] for name in required})


MOMENTARY = {faults.Xid.name, faults.LoneGpuInstance.name}

# A daemon that was killed stays dead: see test_mps_commands.
ENDING = [name for name, fault in faults.FAULTS.items() if fault is not faults.MpsKilled]


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("name", ENDING)
def test_every_fault_ends(node: sim.SimNode, name: str) -> None:
    """Begun twice and ended twice, by itself or with all others, what it is about is as before."""
    calls.enable_mig()
    fault = _sample(faults.FAULTS[name], node)
    before = _healthy(node)
    for ending in (fault, None):
        node.inject(fault)
        assert node.faults() == ([] if name in MOMENTARY else [fault])
        if not isinstance(fault, faults.LoneGpuInstance):
            node.inject(fault)
        node.clear(ending)
        node.clear(ending)
        for instance in calls.gpu_instances(calls.gpu()):
            nvml.nvmlGpuInstanceDestroy(instance)
        assert _healthy(node) == before
        assert node.faults() == []


def _healthy(node: sim.SimNode) -> list[object]:
    """All that the node says, except the counters that only grow."""
    with store.locked(node.state) as state:
        gpu = state.gpus[0]
        conditions = [gpu.lost, gpu.row_remap_pending, gpu.row_remap_failed, gpu.held_open, gpu.cannot_reset]
        conditions += [gpu.mig_mode_stuck, gpu.swaps_minor, state.mps_fault, sum(bool(f.id) for f in state.faults)]
    return [node.gpus(), conditions, node.nvidia_smi.exists()]


def test_names_are_unique_and_documented() -> None:
    classes = [
        each
        for each in vars(faults).values()
        if inspect.isclass(each) and issubclass(each, faults.Fault) and not each.__subclasses__()
    ]
    assert {each.name: each for each in classes} == faults.FAULTS
    assert all(each.__doc__ and not each.__doc__.startswith(f"{each.__name__}(") for each in classes)


def test_unknown_gpu(node: sim.SimNode) -> None:
    count = c_uint()
    for fault in (faults.GpuLost(UNKNOWN_GPU), faults.Xid(UNKNOWN_GPU, 79), CallLies("*", gpu=UNKNOWN_GPU)):
        with pytest.raises(sim.SimError, match=f"no GPU {UNKNOWN_GPU}"):
            node.inject(fault)
    assert nvml.nvmlLib.nvmlDeviceGetCount_v2(byref(count)) == 0
