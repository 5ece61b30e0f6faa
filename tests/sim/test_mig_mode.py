"""The MIG mode: on Ampere it needs a reset and outlives a reboot, from Hopper on neither."""

from __future__ import annotations

from pathlib import Path

import pynvml as nvml
import pytest

from gpusharing import sim
from gpusharing.sim import faults
from sim import calls
from sim.conftest import RunProgram, UseNvml

INVALID_ARGUMENT, NOT_SUPPORTED, RESET_REQUIRED, IN_USE = 2, 3, 16, 19

AMPERE = ["A30", "A100-40GB", "A100-80GB"]
HOPPER_AND_LATER = ["H100-80GB", "H100-NVL", "H200", "B200", "RTX-PRO-6000"]

pytestmark = pytest.mark.usefixtures("root")


@pytest.fixture
def node(tmp_path: Path, use_nvml: UseNvml) -> sim.SimNode:
    """Ampere, Hopper."""
    node = sim.create(tmp_path / "node", "A100-40GB,H100-80GB")
    use_nvml(node)
    return node


def modes() -> list[list[int]]:
    return [nvml.nvmlDeviceGetMigMode(calls.gpu(index)) for index in range(nvml.nvmlDeviceGetCount())]


@pytest.mark.parametrize("model", [*AMPERE, *HOPPER_AND_LATER])
def test_reboot(model: str, tmp_path: Path, use_nvml: UseNvml) -> None:
    node = sim.create(tmp_path / "node", model)
    use_nvml(node)
    calls.mig_device(calls.enable_mig(), *_smallest(model))
    node.reboot()
    assert modes() == ([[1, 1]] if model in AMPERE else [[0, 0]])
    assert node.gpus()[0].gpu_instances == ()


def _smallest(model: str) -> tuple[str, int]:
    return sim.MODELS[model].mig_profiles[0].name, 0


def test_on_and_off(node: sim.SimNode) -> None:
    for index in (0, 1):
        gpu = calls.enable_mig(index)
        assert nvml.nvmlDeviceSetMigMode(gpu, 1) == 0
        assert nvml.nvmlDeviceSetMigMode(gpu, 0) == 0
        assert nvml.nvmlDeviceGetMigMode(gpu) == [0, 0]
    assert calls.error_of(nvml.nvmlDeviceSetMigMode, calls.gpu(), 2) == INVALID_ARGUMENT
    assert nvml.nvmlLib.nvmlDeviceSetMigMode(calls.gpu(), 1, None) == INVALID_ARGUMENT


@pytest.mark.parametrize("index", [0, 1])
def test_off_needs_all_instances_gone(node: sim.SimNode, index: int) -> None:
    gpu = calls.enable_mig(index)
    instance = calls.place(gpu, sim.MODELS[("A100-40GB", "H100-80GB")[index]].mig_profiles[0].name, 0)
    assert nvml.nvmlDeviceSetMigMode(gpu, 0) == IN_USE
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 0]
    nvml.nvmlGpuInstanceDestroy(instance)
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 0]
    assert nvml.nvmlDeviceSetMigMode(gpu, 0) == 0
    assert nvml.nvmlDeviceGetMigMode(gpu) == [0, 0]


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("kind", list(sim.ProcessKind))
def test_processes_keep_it_pending(node: sim.SimNode, index: int, kind: sim.ProcessKind) -> None:
    uuid = node.gpus()[index].uuid
    node.start_process(uuid, 7, 1024, kind)
    gpu = calls.gpu(index)
    assert nvml.nvmlDeviceSetMigMode(gpu, 1) == IN_USE
    assert nvml.nvmlDeviceGetMigMode(gpu) == [0, 1]
    node.stop_process(uuid, 7)
    assert nvml.nvmlDeviceGetMigMode(gpu) == [0, 1]
    assert nvml.nvmlDeviceSetMigMode(gpu, 1) == 0
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]


def test_holders_matter_only_where_a_reset_is_needed(node: sim.SimNode) -> None:
    for gpu in node.gpus():
        node.inject(faults.HeldOpen(gpu.uuid))
    assert [nvml.nvmlDeviceSetMigMode(calls.gpu(index), 1) for index in (0, 1)] == [IN_USE, 0]
    assert modes() == [[0, 1], [1, 1]]
    node.clear()
    assert nvml.nvmlDeviceSetMigMode(calls.gpu(0), 1) == 0


def test_virtual_machine(node: sim.SimNode) -> None:
    for gpu in node.gpus():
        node.inject(faults.CannotReset(gpu.uuid))
    assert [nvml.nvmlDeviceSetMigMode(calls.gpu(index), 1) for index in (0, 1)] == [RESET_REQUIRED, 0]
    assert modes() == [[0, 1], [1, 1]]
    node.reboot()
    assert modes() == [[1, 1], [0, 0]]


@pytest.mark.parametrize("end", ["reset", "reload", "reboot"])
def test_what_makes_a_pending_mode_active(node: sim.SimNode, end: str) -> None:
    uuids = [gpu.uuid for gpu in node.gpus()]
    for index, uuid in enumerate(uuids):
        node.start_process(uuid, 1, 1024)
        assert nvml.nvmlDeviceSetMigMode(calls.gpu(index), 1) == IN_USE
        node.stop_process(uuid, 1)
    if end == "reset":
        for uuid in uuids:
            node.reset_gpu(uuid)
        assert modes() == [[1, 1], [1, 1]]
    else:
        node.reload_driver() if end == "reload" else node.reboot()
        assert modes() == [[1, 1], [0, 0]]


def test_stuck(node: sim.SimNode) -> None:
    """The call says that all is well, and nothing has happened but that a change is pending."""
    uuid = node.gpus()[1].uuid
    gpu = calls.enable_mig(1)
    node.inject(faults.MigModeStuck(uuid))
    assert nvml.nvmlDeviceSetMigMode(gpu, 0) == 0
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 0]
    node.clear(faults.MigModeStuck(uuid))
    assert nvml.nvmlDeviceSetMigMode(gpu, 0) == 0
    assert nvml.nvmlDeviceGetMigMode(gpu) == [0, 0]


def test_handles_of_other_processes_become_stale(node: sim.SimNode, run_program: RunProgram) -> None:
    gpu, other = calls.gpu(1), calls.gpu(0)
    assert run_program("set_mig_mode.py", "1", "1", env=node.environment()) == 0
    assert calls.error_of(nvml.nvmlDeviceGetMigMode, gpu) == INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetMigMode(other) == [0, 0]
    found = calls.gpu(1)
    assert nvml.nvmlDeviceGetMigMode(found) == [1, 1]
    assert nvml.nvmlDeviceSetMigMode(found, 0) == 0
    assert nvml.nvmlDeviceGetMigMode(found) == [0, 0]
    assert run_program("set_mig_mode.py", "1", "1", env=node.environment()) == 0
    assert calls.error_of(nvml.nvmlDeviceGetMigMode, found) == INVALID_ARGUMENT


def test_mode_that_stays_keeps_handles(node: sim.SimNode, run_program: RunProgram) -> None:
    gpu = calls.gpu(1)
    assert run_program("set_mig_mode.py", "1", "0", env=node.environment()) == 0
    assert nvml.nvmlDeviceGetMigMode(gpu) == [0, 0]


def test_minors_swap(node: sim.SimNode) -> None:
    first, second = node.gpus()
    node.inject(faults.MinorsSwap(first.uuid))
    assert [gpu.minor for gpu in node.gpus()] == [0, 1]
    gpu = calls.enable_mig(0)
    assert nvml.nvmlDeviceGetMinorNumber(gpu) == 1
    assert nvml.nvmlDeviceGetMinorNumber(calls.gpu(1)) == 0
    information = node.proc / "driver/nvidia/gpus/0000:1b:00.0/information"
    assert "Device Minor: \t 1\n" in information.read_text()
    calls.mig_device(gpu, "1g.5gb", 0)
    assert set(calls.capability_files(node.directory)) == {"gpu1/mig/gi7/access", "gpu1/mig/gi7/ci0/access"}
    for instance in calls.gpu_instances(gpu):
        compute = nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)
        nvml.nvmlComputeInstanceDestroy(compute)
        nvml.nvmlGpuInstanceDestroy(instance)
    nvml.nvmlDeviceSetMigMode(gpu, 0)
    assert [gpu.minor for gpu in node.gpus()] == [1, 0]
    node.reboot()
    assert [gpu.minor for gpu in node.gpus()] == [0, 1]
    assert (second.minor, node.gpus()[1].uuid) == (1, second.uuid)


def test_not_capable(tmp_path: Path, use_nvml: UseNvml) -> None:
    use_nvml(sim.create(tmp_path / "other", "L4,T4"))
    for index in (0, 1):
        assert calls.error_of(nvml.nvmlDeviceGetMigMode, calls.gpu(index)) == NOT_SUPPORTED
        assert calls.error_of(nvml.nvmlDeviceSetMigMode, calls.gpu(index), 1) == NOT_SUPPORTED


def test_rows_are_not_told_with_mig(node: sim.SimNode) -> None:
    gpu = calls.enable_mig(1)
    assert calls.error_of(nvml.nvmlDeviceGetRemappedRows, gpu) == NOT_SUPPORTED
