"""Resets, reloads of the driver and reboots, and the files that tell of them."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pynvml as nvml
import pytest

from gpusharing import sim
from gpusharing.sim import cdi, faults, store
from sim import calls
from sim.conftest import UseNvml

INVALID_ARGUMENT, DRIVER_NOT_LOADED, GPU_IS_LOST = 2, 9, 15


@pytest.fixture
def node(tmp_path: Path, use_nvml: UseNvml) -> sim.SimNode:
    node = sim.create(tmp_path / "node", "A100-80GB,H100-80GB,L4", driver="615")
    use_nvml(node)
    return node


def settle(node: sim.SimNode) -> None:
    """Settings, instances and processes on each GPU."""
    for gpu in node.gpus():
        node.set_compute_mode(gpu.uuid, sim.ComputeMode.EXCLUSIVE_PROCESS)
        node.set_timeslice(gpu.uuid, sim.Timeslice.LONG)
    for index in (0, 1):
        calls.mig_device(calls.enable_mig(index), "1g.10gb", 0)
    node.start_process(node.gpus()[2].uuid, 4711, 1024)


@pytest.mark.parametrize("end", ["reload", "reboot"])
def test_what_is_forgotten(node: sim.SimNode, end: str) -> None:
    settle(node)
    before, boot_id = node.gpus(), node.boot_id
    node.reboot() if end == "reboot" else node.reload_driver()

    after = node.gpus()
    assert [gpu.uuid for gpu in after] == [gpu.uuid for gpu in before]
    assert {gpu.timeslice for gpu in after} == {sim.Timeslice.DEFAULT}
    assert {gpu.compute_mode for gpu in after} == {sim.ComputeMode.DEFAULT}
    assert [gpu.gpu_instances for gpu in after] == [()] * 3
    assert [gpu.processes for gpu in after] == [()] * 3
    assert [gpu.mig_mode for gpu in after] == [
        sim.MigMode(current=True, pending=True),
        sim.MigMode(current=False, pending=False),
        None,
    ]
    assert (node.boot_id != boot_id) == (end == "reboot")
    assert (node.proc / "sys/kernel/random/boot_id").read_text() == f"{node.boot_id}\n"


def test_processes_of_the_node_can_see_a_reboot(node: sim.SimNode) -> None:
    with store.locked(node.state) as state:
        before = state.boot
    node.reload_driver()
    with store.locked(node.state) as state:
        assert state.boot == before
    node.reboot()
    with store.locked(node.state) as state:
        assert state.boot == before + 1


@pytest.mark.parametrize("end", ["reset", "reload", "reboot"])
def test_handles_become_stale(node: sim.SimNode, end: str) -> None:
    gpu = calls.enable_mig(1)
    instance = calls.place(gpu, "1g.10gb", 0)
    untouched = calls.gpu(2)
    if end == "reset":
        node.reset_gpu(node.gpus()[1].uuid)
    else:
        node.reboot() if end == "reboot" else node.reload_driver()
    assert calls.error_of(nvml.nvmlDeviceGetName, gpu) == INVALID_ARGUMENT
    assert calls.error_of(nvml.nvmlGpuInstanceGetInfo, instance) == INVALID_ARGUMENT
    assert calls.error_of(nvml.nvmlDeviceGetName, untouched) == (0 if end == "reset" else INVALID_ARGUMENT)
    assert nvml.nvmlDeviceGetName(calls.gpu(1)) == "NVIDIA H100 80GB HBM3"


def test_reset(node: sim.SimNode) -> None:
    """What the driver remembers of a GPU outlives it, instances do not."""
    settle(node)
    ampere, hopper, l4 = (gpu.uuid for gpu in node.gpus())
    node.reset_gpu(ampere)
    gpu = node.gpus()[0]
    assert (gpu.gpu_instances, gpu.timeslice) == ((), sim.Timeslice.LONG)
    assert gpu.mig_mode == sim.MigMode(current=True, pending=True)
    assert len(node.gpus()[1].gpu_instances) == 1
    with pytest.raises(sim.SimError, match="cannot be reset: NVML error 19"):
        node.reset_gpu(l4)
    node.inject(faults.HeldOpen(hopper))
    with pytest.raises(sim.SimError, match="NVML error 19"):
        node.reset_gpu(hopper)
    node.inject(faults.CannotReset(hopper))
    with pytest.raises(sim.SimError, match="NVML error 3"):
        node.reset_gpu(hopper)


def test_reset_through_the_library_keeps_the_callers_handles(node: sim.SimNode) -> None:
    gpu = calls.enable_mig(1)
    calls.place(gpu, "1g.10gb", 0)
    assert nvml.nvmlLib.gpusharingSimResetGpu(gpu) == 0
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
    assert calls.gpu_instances(gpu) == []


def test_unloaded_driver(node: sim.SimNode) -> None:
    gpu = calls.gpu()
    nodes = {path.name for path in node.dev.iterdir()}
    node.unload_driver()
    assert calls.error_of(nvml.nvmlDeviceGetName, gpu) == DRIVER_NOT_LOADED
    assert calls.error_of(nvml.nvmlInit) == DRIVER_NOT_LOADED
    assert not (node.proc / "driver/nvidia").exists()
    assert "nvidia" not in (node.proc / "devices").read_text()
    assert {path.name for path in node.dev.iterdir()} == nodes
    node.load_driver()
    assert nvml.nvmlDeviceGetCount() == 3
    assert "236 nvidia-caps\n" in (node.proc / "devices").read_text()
    assert len(list((node.proc / "driver/nvidia/gpus").iterdir())) == 3


def test_lost_gpu(node: sim.SimNode) -> None:
    """All calls on it fail, also with its UUID, and its neighbours answer, until the next boot."""
    lost, healthy = node.gpus()[0].uuid, node.gpus()[1].uuid
    gpu = calls.gpu(0)
    node.inject(faults.GpuLost(lost))
    assert nvml.nvmlDeviceGetCount() == 3
    for call, argument in (
        (nvml.nvmlDeviceGetName, gpu),
        (nvml.nvmlDeviceGetMigMode, gpu),
        (nvml.nvmlDeviceGetHandleByIndex, 0),
        (nvml.nvmlDeviceGetHandleByUUID, lost),
        (nvml.nvmlDeviceGetHandleByPciBusId, "0000:1b:00.0"),
    ):
        assert calls.error_of(call, argument) == GPU_IS_LOST, call
    assert nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByUUID(healthy))
    assert [each.lost for each in node.gpus()] == [True, False, False]
    with pytest.raises(sim.SimError, match="NVML error 15"):
        node.reset_gpu(lost)
    node.reload_driver()
    assert node.gpus()[0].lost
    node.reboot()
    assert nvml.nvmlDeviceGetName(calls.gpu(0))


def test_rows_wait_for_a_reset(node: sim.SimNode) -> None:
    uuid = node.gpus()[1].uuid
    assert nvml.nvmlDeviceGetRemappedRows(calls.gpu(1)) == (0, 0, 0, 0)
    node.inject(faults.RowRemapPending(uuid))
    assert nvml.nvmlDeviceGetRemappedRows(calls.gpu(1)) == (0, 0, 1, 0)
    node.reset_gpu(uuid)
    assert nvml.nvmlDeviceGetRemappedRows(calls.gpu(1)) == (0, 1, 0, 0)
    node.inject(faults.RowRemapPending(uuid, failed=True))
    assert nvml.nvmlDeviceGetRemappedRows(calls.gpu(1)) == (0, 1, 1, 1)
    node.clear(faults.RowRemapPending(uuid))
    assert nvml.nvmlDeviceGetRemappedRows(calls.gpu(1)) == (0, 1, 0, 0)


def test_driver_says_what_needs_a_reset(node: sim.SimNode) -> None:
    uuid = node.gpus()[1].uuid

    def action() -> int:
        (value,) = nvml.nvmlDeviceGetFieldValues(calls.gpu(1), [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        assert value.nvmlReturn == 0
        return int(value.value.uiVal)

    assert action() == nvml.NVML_GPU_RECOVERY_ACTION_NONE
    recoveries: list[Callable[[], None]] = [lambda: node.reset_gpu(uuid), node.reload_driver, node.reboot]
    for recover in recoveries:
        node.inject(faults.ResetNeeded(uuid))
        assert action() == nvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET
        recover()
        assert action() == nvml.NVML_GPU_RECOVERY_ACTION_NONE
    node.inject(faults.ResetNeeded(uuid, action=nvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT))
    assert action() == nvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT
    assert node.faults() == [faults.ResetNeeded(uuid, action=nvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT)]


@pytest.mark.parametrize(
    ("fault", "action"),
    [
        pytest.param({"xid": 48}, 1, id="as in NVIDIA's catalogue"),
        pytest.param({"xid": 31}, 0, id="only the program has to be restarted"),
        pytest.param({"xid": 48, "recovery": 0}, 0, id="false alarm"),
        pytest.param({"xid": 31, "recovery": 2}, 2, id="worse than expected"),
        pytest.param({"xid": 95, "gpu_instance": 1}, 1, id="in a MIG instance"),
    ],
)
def test_what_an_xid_needs(node: sim.SimNode, fault: dict[str, int], action: int) -> None:
    uuid = node.gpus()[0].uuid
    node.inject(faults.Xid(uuid, **fault))
    assert node.faults() == ([faults.ResetNeeded(uuid, action=action)] if action else [])


def test_each_load_of_the_module_is_another_one(node: sim.SimNode) -> None:
    module = node.sys / "module/nvidia"
    loads = [module.stat().st_ino]
    for _ in range(3):
        node.reload_driver()
        loads.append(module.stat().st_ino)
    assert all(one != other for one, other in pairwise(loads))
    node.unload_driver()
    assert not module.exists()


def test_turing_has_no_spare_rows(tmp_path: Path, use_nvml: UseNvml) -> None:
    use_nvml(sim.create(tmp_path / "other", "T4"))
    with pytest.raises(nvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetRemappedRows(calls.gpu())
    assert nvml.nvmlDeviceGetEccMode(calls.gpu()) == [1, 1]


class TestFiles:
    def test_of_gpus(self, node: sim.SimNode) -> None:
        information = [
            dict(line.split(":", 1) for line in file.read_text().splitlines())
            for file in sorted(node.proc.glob("driver/nvidia/gpus/*/information"))
        ]
        assert [each["GPU UUID"].strip() for each in information] == [gpu.uuid for gpu in node.gpus()]
        assert [each["Device Minor"].strip() for each in information] == ["0", "1", "2"]
        assert [each["Bus Location"].strip() for each in information] == [
            "0000:1b:00.0",
            "0000:22:00.0",
            "0000:29:00.0",
        ]
        assert {path.name for path in node.dev.iterdir()} == {
            "nvidia0",
            "nvidia1",
            "nvidia2",
            "nvidiactl",
            "nvidia-modeset",
            "nvidia-uvm",
            "nvidia-uvm-tools",
            "nvidia-caps",
            "shm",
        }
        assert {path.name for path in (node.proc / "driver/nvidia/capabilities").iterdir()} == {"mig", "gpu0", "gpu1"}

    @pytest.mark.usefixtures("root")
    def test_device_numbers(self, node: sim.SimNode) -> None:
        calls.mig_device(calls.enable_mig(1), "2g.20gb", 2)
        numbers = {}
        for path in node.dev.rglob("nvidia*"):
            status = path.stat()
            if stat.S_ISCHR(status.st_mode):
                numbers[path.name] = (status.st_rdev >> 8, status.st_rdev & 0xFF, stat.S_IMODE(status.st_mode))
        assert numbers == {
            "nvidia0": (195, 0, 0o666),
            "nvidia1": (195, 1, 0o666),
            "nvidia2": (195, 2, 0o666),
            "nvidiactl": (195, 255, 0o666),
            "nvidia-modeset": (195, 254, 0o666),
            "nvidia-uvm": (234, 0, 0o666),
            "nvidia-uvm-tools": (234, 1, 0o666),
            "nvidia-cap1": (236, 1, 0o400),
            "nvidia-cap2": (236, 2, 0o444),
            "nvidia-cap174": (236, 174, 0o400),
            "nvidia-cap175": (236, 175, 0o400),
        }

    def test_minors_of_all_capabilities(self, node: sim.SimNode) -> None:
        lines = (node.proc / "driver/nvidia-caps/mig-minors").read_text().splitlines()
        assert lines[:5] == [
            "config 1",
            "monitor 2",
            "gpu0/gi0/access 3",
            "gpu0/gi0/ci0/access 4",
            "gpu0/gi0/ci1/access 5",
        ]
        assert lines[-1] == "gpu31/gi14/ci7/access 4322"
        assert len(lines) == 4322

    @pytest.mark.usefixtures("root")
    def test_of_instances(self, node: sim.SimNode) -> None:
        """They come and go with the instances, under the numbers that mig-minors has for them."""
        minors = dict(line.split() for line in (node.proc / "driver/nvidia-caps/mig-minors").read_text().splitlines())
        assert calls.capability_files(node.directory) == {}
        gpu = calls.enable_mig(1)
        instance = calls.place(gpu, "3g.40gb", 4)
        computes = [nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0) for _ in range(2)]
        self._expect(node, minors, ["gpu1/gi2/access", "gpu1/gi2/ci0/access", "gpu1/gi2/ci1/access"])
        nvml.nvmlComputeInstanceDestroy(computes[0])
        self._expect(node, minors, ["gpu1/gi2/access", "gpu1/gi2/ci1/access"])
        nvml.nvmlComputeInstanceDestroy(computes[1])
        nvml.nvmlGpuInstanceDestroy(instance)
        self._expect(node, minors, [])
        calls.mig_device(gpu, "3g.40gb", 4)
        self._expect(node, minors, ["gpu1/gi2/access", "gpu1/gi2/ci0/access"])
        node.reboot()
        self._expect(node, minors, [])

    def _expect(self, node: sim.SimNode, minors: dict[str, str], capabilities: list[str]) -> None:
        expected = {name.replace("/", "/mig/", 1): int(minors[name]) for name in capabilities}
        assert calls.capability_files(node.directory) == expected
        devices = {path.name for path in (node.dev / "nvidia-caps").iterdir()}
        assert devices == {f"nvidia-cap{minor}" for minor in (1, 2, *expected.values())}

    @pytest.mark.usefixtures("root")
    def test_content(self, node: sim.SimNode) -> None:
        calls.place(calls.enable_mig(0), "7g.80gb", 0)
        capabilities = node.proc / "driver/nvidia/capabilities"
        expected = "DeviceFileMinor: {}\nDeviceFileMode: 256\nDeviceFileModify: 1\n"
        assert (capabilities / "gpu0/mig/gi0/access").read_text() == expected.format(3)
        assert (capabilities / "mig/config").read_text() == expected.format(1)

    @pytest.mark.usefixtures("root")
    def test_cdi_follows_at_the_next_boot(self, node: sim.SimNode) -> None:
        def devices() -> set[str]:
            spec = json.loads((node.cdi / "nvidia.com-gpu.json").read_text())
            return {device["name"] for device in spec["devices"]}

        ampere, hopper, l4 = (gpu.uuid for gpu in node.gpus())
        calls.mig_device(calls.enable_mig(0), "1g.10gb", 0)
        assert devices() == {"0", "1", "2", ampere, hopper, l4, "all"}
        node.reboot()
        assert devices() == {"1", "2", hopper, l4, "all"}

    @pytest.mark.usefixtures("root")
    def test_cdi_of_mig_devices(self, node: sim.SimNode) -> None:
        device = calls.mig_device(calls.enable_mig(1), "3g.40gb", 4)
        uuid = nvml.nvmlDeviceGetUUID(device)
        cdi.write_cdi_spec(node.cdi, node.gpus())
        spec = json.loads((node.cdi / "nvidia.com-gpu.json").read_text())
        nodes = {
            each["name"]: [entry["path"] for entry in each["containerEdits"]["deviceNodes"]] for each in spec["devices"]
        }
        mine = ["/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap156", "/dev/nvidia-caps/nvidia-cap157"]
        assert nodes[uuid] == nodes["1:0"] == mine
        assert "1" not in nodes
        assert nodes["all"] == ["/dev/nvidia0", *mine, "/dev/nvidia2"]
