"""MIG mode: which GPUs can switch when, and what becomes of a wish that cannot be fulfilled."""

import asyncio
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.nvidia.errors import (
    GpuLostError,
    HardwareError,
    InUseError,
    MigModePendingError,
    NotPermittedError,
    NotSupportedError,
    ResetRequiredError,
    SettingNotAppliedError,
)
from gpusharing.nvidia.facts import Change, MigMode, MigPlace
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import faults
from harness.eventually import eventually
from nvidia.nodes import calls_of, opened, uuid

OFF = MigMode(current=False, pending=False)
ON = MigMode(current=True, pending=True)
WAITING = MigMode(current=False, pending=True)

CAPABLE = [name for name, model in sim.MODELS.items() if model.mig_capable]


async def mode(hardware: Hardware, index: int = 0) -> MigMode | None:
    return (await hardware.inventory()).gpus[index].mig_mode


@pytest.mark.parametrize("driver", ["535", "580", "610"])
async def test_no_compute_mode_while_it_is_on(tmp_path: Path, driver: str) -> None:
    """Drivers say so in different ways."""
    node = sim.create(tmp_path / "node", "H100-80GB", driver=driver)
    async with opened(node) as hardware:
        await hardware.set_mig_mode(uuid(node), enabled=True)
        assert await hardware.compute_mode(uuid(node)) is None
        (state,) = (await hardware.inventory()).gpus
        assert (state.compute_mode, state.unknown) == (None, ())
        with pytest.raises(NotSupportedError):
            await hardware.set_compute_mode(uuid(node), "Default")


@pytest.mark.parametrize("model", CAPABLE)
async def test_on_and_off_and_each_again(tmp_path: Path, model: str) -> None:
    node = sim.create(tmp_path / "node", f"{model}:2")
    async with opened(node) as hardware:
        for enabled, change in ((True, Change(OFF, ON)), (False, Change(ON, OFF))):
            assert await hardware.set_mig_mode(uuid(node), enabled=enabled) == change
            assert await hardware.set_mig_mode(uuid(node), enabled=enabled) == Change(change.now, change.now)
            assert await mode(hardware) == change.now
            assert await mode(hardware, 1) == OFF


async def test_nothing_of_the_session_before_is_used_after_a_switch(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB")
    async with opened(node) as hardware:
        with calls_of(hardware) as functions:
            await hardware.set_mig_mode(uuid(node), enabled=True)
    after = functions[functions.index("nvmlDeviceSetMigMode") + 1 :]
    assert after[:3] == ["nvmlShutdown", "nvmlInitWithFlags", "nvmlDeviceGetHandleByUUID"]


async def test_after_a_reboot(tmp_path: Path) -> None:
    """Ampere keeps it, Hopper does not."""
    node = sim.create(tmp_path / "node", "A100-40GB,H100-80GB")
    async with opened(node) as hardware:
        for gpu in node.gpus():
            await hardware.set_mig_mode(gpu.uuid, enabled=True)
    node.reboot()
    async with opened(node) as hardware:
        assert [await mode(hardware, index) for index in (0, 1)] == [ON, OFF]


@pytest.mark.parametrize("model", ["L4", "T4"])
async def test_model_without_mig(tmp_path: Path, model: str) -> None:
    node = sim.create(tmp_path / "node", model)
    async with opened(node) as hardware:
        with pytest.raises(NotSupportedError, match=uuid(node)):
            await hardware.set_mig_mode(uuid(node), enabled=True)


@pytest.mark.parametrize("model", ["A100-40GB", "H100-80GB"])
async def test_gpu_with_processes_is_left_as_it_is(tmp_path: Path, model: str) -> None:
    """No wish is left behind either: the next reset, for whatever reason, would fulfil it."""
    node = sim.create(tmp_path / "node", model)
    node.start_process(uuid(node), 42, 1)
    node.start_process(uuid(node), 7, 1)
    async with opened(node) as hardware:
        with pytest.raises(InUseError, match=r"while processes use the GPU: 7, 42: end the programs that use it"):
            await hardware.set_mig_mode(uuid(node), enabled=True)
        assert await mode(hardware) == OFF
        for pid in (7, 42):
            node.stop_process(uuid(node), pid)
        assert await hardware.set_mig_mode(uuid(node), enabled=True) == Change(OFF, ON)


async def test_gpu_that_is_cut_is_left_as_it_is(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB")
    async with opened(node) as hardware:
        await hardware.set_mig_mode(uuid(node), enabled=True)
        node.inject(faults.LoneGpuInstance(uuid(node), "1g.10gb", 0))
        with pytest.raises(InUseError, match="has 1 instances: destroy them first"):
            await hardware.set_mig_mode(uuid(node), enabled=False)
        assert await mode(hardware) == ON
        await hardware.destroy_mig_instance(uuid(node), MigPlace(19, 0))
        assert await hardware.set_mig_mode(uuid(node), enabled=False) == Change(ON, OFF)


async def test_gpu_that_somebody_has_open_waits_and_can_be_tried_again_or_given_up(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "A100-40GB")
    gpu = uuid(node)
    held = faults.HeldOpen(gpu)
    node.inject(held)
    async with opened(node) as hardware:
        for _ in range(2):
            with pytest.raises(
                MigModePendingError, match="MIG mode is off, and on after the next reset: a program has"
            ):
                await hardware.set_mig_mode(gpu, enabled=True)
            assert await mode(hardware) == WAITING
        assert await hardware.set_mig_mode(gpu, enabled=False) == Change(WAITING, OFF)
        with pytest.raises(MigModePendingError):
            await hardware.set_mig_mode(gpu, enabled=True)
        node.clear(held)
        assert await hardware.set_mig_mode(gpu, enabled=True) == Change(WAITING, ON)


async def test_gpu_that_cannot_be_reset_here(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "A30")
    node.inject(faults.CannotReset(uuid(node)))
    async with opened(node) as hardware:
        with pytest.raises(ResetRequiredError, match="reboot the node"):
            await hardware.set_mig_mode(uuid(node), enabled=True)
        assert await mode(hardware) == WAITING


@pytest.mark.parametrize("enabled", [True, False])
async def test_driver_that_says_done_and_leaves_it_pending(tmp_path: Path, *, enabled: bool) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB")
    async with opened(node) as hardware:
        await hardware.set_mig_mode(uuid(node), enabled=not enabled)
        node.inject(faults.MigModeStuck(uuid(node)))
        with pytest.raises(MigModePendingError):
            await hardware.set_mig_mode(uuid(node), enabled=enabled)
        assert await mode(hardware) == MigMode(current=not enabled, pending=enabled)


async def test_driver_that_says_done_and_has_done_nothing(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB")
    async with opened(node) as hardware:
        node.inject(faults.CallLies("nvmlDeviceSetMigMode"))
        with pytest.raises(SettingNotAppliedError, match="said that MIG mode was on, but it is off: try"):
            await hardware.set_mig_mode(uuid(node), enabled=True)
        assert await mode(hardware) == OFF


@pytest.mark.parametrize(
    ("code", "kind"), [(4, NotPermittedError), (15, GpuLostError), (3, NotSupportedError), (17, HardwareError)]
)
async def test_driver_that_refuses(tmp_path: Path, code: int, kind: type[HardwareError]) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB")
    async with opened(node) as hardware:
        node.inject(faults.CallFails("nvmlDeviceSetMigMode", code))
        with pytest.raises(kind, match=f"GPU {uuid(node)}: nvmlDeviceSetMigMode"):
            await hardware.set_mig_mode(uuid(node), enabled=True)
        assert await mode(hardware) == OFF


async def test_settings_of_others_outlive_the_switch_of_one(tmp_path: Path) -> None:
    """Handles are looked up anew, and so is the GPU whose number changed with its neighbour's."""
    node = sim.create(tmp_path / "node", "A100-40GB:2")
    first, second = (gpu.uuid for gpu in node.gpus())
    async with opened(node) as hardware:
        node.inject(faults.MinorsSwap(first))
        await hardware.set_mig_mode(first, enabled=True)
        assert await hardware.set_compute_mode(second, "Prohibited") == Change("Default", "Prohibited")
        assert [gpu.compute_mode.name for gpu in node.gpus()] == ["DEFAULT", "PROHIBITED"]
        assert await hardware.compute_mode(first) is None


async def test_whoever_holds_the_gpu_open_is_named(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "A100-40GB")
    node.inject(faults.HeldOpen(uuid(node)))
    device = node.dev / "nvidia0"
    # An ordinary file will do: what counts is who has it open.
    device.unlink()
    device.touch()
    holder = await asyncio.create_subprocess_exec("sh", "-c", f"exec sleep 60 3< {device}")
    async with opened(node) as hardware:

        async def named() -> None:
            with pytest.raises(
                MigModePendingError, match=rf"{device} is open in sleep \({holder.pid}\): end everything"
            ):
                await hardware.set_mig_mode(uuid(node), enabled=True)

        await eventually(named)
    holder.kill()
    await holder.wait()
