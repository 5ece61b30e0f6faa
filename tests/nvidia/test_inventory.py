"""Everything that can be found out about the GPUs of a node, also when a part of it is broken."""

import time
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.nvidia.errors import DriverExchangedError, DriverGoneError, NotSupportedError
from gpusharing.nvidia.facts import (
    Ailment,
    BrokenGpu,
    ComputeInstance,
    GpuInstance,
    GpuProcess,
    MigMode,
    MigPlace,
    ProcessKind,
    Span,
)
from gpusharing.sim import MODELS, faults, store
from gpusharing.sim import ProcessKind as SimProcessKind
from gpusharing.sim.drivers import KNOWN
from nvidia.nodes import calls_of, opened, uuid

GIB = 1024**3


@pytest.mark.parametrize("driver", [str(driver.branch) for driver in KNOWN])
async def test_every_model_on_every_driver(tmp_path: Path, driver: str) -> None:
    """What a driver does not know yet is not known; it is no trouble."""
    models = [model for model in MODELS.values() if model.driver <= int(driver)]
    node = sim.create(tmp_path / "node", ",".join(model.name for model in models), driver=driver)
    async with opened(node) as hardware:
        found = await hardware.inventory()
    assert found.broken == ()
    for gpu, state, model in zip(node.gpus(), found.gpus, models, strict=True):
        board = state.board
        assert (state.unknown, state.ailments, state.processes, state.instances) == ((), (), (), ())
        assert (board.uuid, board.product_name, board.memory_mib) == (gpu.uuid, model.product_name, model.memory_mib)
        assert board.compute_capability == model.compute_capability
        assert board.addressing_mode == ("HMM" if int(driver) >= 580 else None)
        assert (board.mig is not None) is model.mig_capable
        assert state.mig_mode == (MigMode(current=False, pending=False) if model.mig_capable else None)
        assert state.compute_mode == "Default"
        if board.mig:
            assert board.mig.switch_resets_gpu is model.mig_mode_needs_reset
            # Before R550 profiles are told only while MIG mode is on.
            assert len(board.mig.profiles) == (len(model.mig_profiles) if int(driver) >= 550 else 0)


async def test_driver_that_tells_profiles_only_with_mig_on(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB", driver="535")
    async with opened(node) as hardware:
        for enabled, profiles in ((False, 0), (True, 7), (False, 0)):
            await hardware.set_mig_mode(uuid(node), enabled=enabled)
            mig = (await hardware.inventory()).boards[0].mig
            assert mig is not None
            assert len(mig.profiles) == profiles


async def test_what_is_on_a_gpu(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "A100-80GB:2")
    first, second = (gpu.uuid for gpu in node.gpus())
    async with opened(node) as hardware:
        await hardware.set_mig_mode(first, enabled=True)
        await hardware.create_mig_instance(first, MigPlace(9, 4))
        node.inject(faults.LoneGpuInstance(first, "1g.10gb", 2))
        mig_device = node.gpus()[0].gpu_instances[0].compute_instances[0].uuid
        node.start_process(mig_device, 4711, 2 * GIB)
        node.start_process(second, 4712, 3 * GIB)
        node.start_process(second, 4713, GIB, SimProcessKind.GRAPHICS)
        node.start_process(second, 4714, GIB, SimProcessKind.MPS_CLIENT)
        node.inject(faults.RowRemapPending(second))
        cut, whole = (await hardware.inventory()).gpus

    assert cut.mig_mode == MigMode(current=True, pending=True)
    assert cut.compute_mode is None
    large, remnant = sorted(cut.instances, key=lambda instance: instance.profile, reverse=True)
    assert large == GpuInstance(
        id=large.id,
        profile_id=9,
        profile="3g.40gb",
        span=Span(4, 4),
        compute_instances=(ComputeInstance(id=0, profile_id=2, span=Span(0, 3), uuid=mig_device),),
    )
    assert (large.uuid, large.is_remnant) == (mig_device, False)
    assert remnant == GpuInstance(id=remnant.id, profile_id=19, profile="1g.10gb", span=Span(2, 1))
    assert (remnant.uuid, remnant.is_remnant) == (None, True)
    assert cut.processes == (
        GpuProcess(pid=4711, kind=ProcessKind.COMPUTE, memory=2 * GIB, gpu_instance=large.id, compute_instance=0),
    )

    assert whole.instances == ()
    assert whole.ailments == (Ailment.ROW_REMAP_PENDING,)
    assert [(process.pid, process.kind, process.memory) for process in whole.processes] == [
        (4712, ProcessKind.COMPUTE, 3 * GIB),
        (4713, ProcessKind.GRAPHICS, GIB),
        (4714, ProcessKind.MPS_CLIENT, GIB),
    ]


async def test_lost_gpu_hides_nobody_and_comes_back(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB:3")
    lost = uuid(node, 1)
    async with opened(node) as hardware:
        assert len((await hardware.inventory()).gpus) == 3
        node.inject(faults.GpuLost(lost))
        for _ in range(2):
            found = await hardware.inventory()
            assert [board.uuid for board in found.boards] == [uuid(node, 0), uuid(node, 2)]
            (broken,) = found.broken
            assert (broken.index, broken.lost) == (1, True)
            assert "reset the GPU" in broken.problem
        node.clear()
        # A session may not see that it is back, which this simulation cannot show; a new one does.
        for sessions in (1, 0):
            with calls_of(hardware) as functions:
                assert len((await hardware.inventory()).gpus) == 3
            assert functions.count("nvmlInitWithFlags") == sessions


async def test_gpu_that_may_not_be_opened_hides_nobody(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "L4:2")
    async with opened(node) as hardware:
        node.inject(faults.CallFails("nvmlDeviceGetUUID", 4, gpu=uuid(node, 0)))
        found = await hardware.inventory()
    assert [board.uuid for board in found.boards] == [uuid(node, 1)]
    assert found.broken == (
        BrokenGpu(
            index=0,
            uuid=None,
            problem="nvmlDeviceGetUUID: Insufficient Permissions: run the agent as root, privileged",
            lost=False,
        ),
    )


@pytest.mark.parametrize(
    ("function", "what"),
    [
        ("nvmlDeviceGetComputeMode", "compute mode"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "processes"),
        ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "processes"),
        ("nvmlDeviceGetRemappedRows", "broken memory"),
        ("nvmlDeviceGetAddressingMode", "addressing mode"),
        ("nvmlDeviceGetGpuInstancePossiblePlacements", "MIG profiles"),
        ("nvmlGpuInstanceGetInfo", "MIG instances"),
        ("nvmlDeviceGetGpuInstanceById", "MIG instances"),
        ("nvmlComputeInstanceGetInfo", "MIG instances"),
    ],
)
@pytest.mark.parametrize("code", [4, 10, 17, 999])
async def test_what_cannot_be_found_out_is_said_and_hides_nothing_else(
    tmp_path: Path, function: str, what: str, code: int
) -> None:
    node = sim.create(tmp_path / "node", "A100-40GB:2")
    async with opened(node) as hardware:
        await hardware.set_mig_mode(uuid(node), enabled=True)
        await hardware.create_mig_instance(uuid(node), MigPlace(19, 0))
        await hardware._threads.do(hardware._session.renew)
        broken = uuid(node, 1 if what in {"compute mode", "broken memory"} else 0)
        node.inject(faults.CallFails(function, code, gpu=broken))
        found = await hardware.inventory()
        assert found.broken == ()
        for state in found.gpus:
            if state.board.uuid == broken:
                (unknown,) = state.unknown
                assert unknown.startswith(f"{what}: GPU {broken}: {function.removesuffix('_v3')}")
            else:
                assert state.unknown == ()
        node.clear()
        assert [state.unknown for state in (await hardware.inventory()).gpus] == [(), ()]


async def test_compute_mode_of_a_later_driver(tmp_path: Path) -> None:
    """What is not known here can neither be told nor be put back, so it is left alone."""
    node = sim.create(tmp_path / "node", "L4")
    with store.locked(node.state) as state:
        state.gpus[0].compute_mode = 7
    async with opened(node) as hardware:
        (gpu,) = (await hardware.inventory()).gpus
        assert (gpu.compute_mode, gpu.unknown) == (None, ())
        with pytest.raises(NotSupportedError, match="compute mode 7 is none of those"):
            await hardware.set_compute_mode(gpu.board.uuid, "Default")


async def test_gone_driver_is_named(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "L4")
    async with opened(node) as hardware:
        node.unload_driver()
        with pytest.raises(DriverGoneError, match="Driver Not Loaded: load the driver"):
            await hardware.inventory()
        node.load_driver()
        await hardware.inventory()
        # A library that is loaded cannot be exchanged.
        node.reload_driver("590")
        with pytest.raises(DriverExchangedError, match=r"version mismatch.*the agent has to restart"):
            await hardware.inventory()
        with pytest.raises(DriverGoneError):
            await hardware.compute_mode(uuid(node))


async def test_minor_numbers_are_those_of_now(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "A100-40GB:2")
    async with opened(node) as hardware:
        node.inject(faults.MinorsSwap(uuid(node, 0)))
        assert [board.minor for board in (await hardware.inventory()).boards] == [0, 1]
        await hardware.set_mig_mode(uuid(node, 0), enabled=True)
        assert [board.minor for board in (await hardware.inventory()).boards] == [1, 0]


async def test_speed(tmp_path: Path) -> None:
    """Eight GPUs with 56 MIG devices in 20 ms: of the processor, because others work on this machine, too."""
    node = sim.create(tmp_path / "node", "H100-80GB:8")
    async with opened(node) as hardware:
        for gpu in node.gpus():
            await hardware.set_mig_mode(gpu.uuid, enabled=True)
            for start in range(7):
                await hardware.create_mig_instance(gpu.uuid, MigPlace(19, start))
        times = []
        for _ in range(20):
            began = time.process_time()
            found = await hardware.inventory()
            times.append(time.process_time() - began)
    assert sum(len(gpu.instances) for gpu in found.gpus) == 56
    assert min(times) < 0.02
