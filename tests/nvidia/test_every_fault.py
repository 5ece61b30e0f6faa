"""Each operation of the protocol meets each fault of the simulation: success or a typed error, within its time.

Nothing half made stays unreported, what belongs to others stays as it is, and where the fault can be mended, the
operation succeeds afterwards.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.nvidia import smi
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.driver_thread import Patience
from gpusharing.nvidia.errors import DriverExchangedError, DriverHungError, HardwareError, LeftoverError
from gpusharing.nvidia.gpu_node import GpuNode
from gpusharing.sim import faults, mps
from harness.eventually import eventually
from harness.mounts import unmount_below
from nvidia.nodes import opened, with_walls
from nvidia.operations import FOREIGN, OPERATIONS, PLACE, Bed, bed_of
from sim.mps_daemons import kill_programs_of

pytestmark = pytest.mark.slow

# With a driver that hangs; with any other a busy machine may take its time.
PATIENCE: Final = Patience(question=0.4, change=0.5)
# Of nvidia-smi, and of an answer of the MPS daemon.
PROGRAM_PATIENCE: Final = 1.5
# The longest: a silent MPS daemon is asked in vain, and then ended gently before it is ended by force.
DEADLINE: Final = 2 * PROGRAM_PATIENCE + 2 + 1.5

# On the node; with the GPU that the operation is about.
Begin = Callable[[sim.SimNode, str], None]


def on_gpu(fault: Callable[[str], faults.Fault]) -> Begin:
    return lambda node, gpu: node.inject(fault(gpu))


def on_node(fault: faults.Fault) -> Begin:
    return lambda node, _: node.inject(fault)


def lone_gpu_instance(node: sim.SimNode, _: str) -> None:
    with suppress(sim.SimError):
        # Where there is room.
        node.inject(faults.LoneGpuInstance(node.gpus()[0].uuid, "3g.40gb", PLACE.start))


def no_time_slice(node: sim.SimNode, gpu: str) -> None:
    node.set_timeslice(gpu, None)


def mps_killed(node: sim.SimNode, _: str) -> None:
    for daemon in mps.running_daemons(node.directory / "bin"):
        node.inject(faults.MpsKilled(daemon.pipe))


MENDED: Final[dict[str, Begin]] = {
    "call-fails": on_node(faults.CallFails("*", 999)),
    "call-fails, on this GPU": on_gpu(lambda gpu: faults.CallFails("*", 17, gpu=gpu)),
    "call-fails, once": on_node(faults.CallFails("*", 999, after=2, times=1)),
    "call-hangs": on_node(faults.CallHangs("*")),
    "call-hangs, on this GPU": on_gpu(lambda gpu: faults.CallHangs("*", gpu=gpu, after=1)),
    "call-lies": on_node(faults.CallLies("*")),
    "gpu-lost": on_gpu(faults.GpuLost),
    "row-remap-pending": on_gpu(faults.RowRemapPending),
    "reset-needed": on_gpu(faults.ResetNeeded),
    "held-open": on_gpu(faults.HeldOpen),
    "cannot-reset": on_gpu(faults.CannotReset),
    "mig-mode-stuck": on_gpu(faults.MigModeStuck),
    "minors-swap": on_gpu(faults.MinorsSwap),
    "xid": on_gpu(lambda gpu: faults.Xid(gpu, 48)),
    "lone-gpu-instance": lone_gpu_instance,
    "mps-does-not-start": on_node(faults.MpsDoesNotStart()),
    "mps-hangs": on_node(faults.MpsHangs()),
    "mps-server-does-not-start": on_node(faults.MpsServerDoesNotStart()),
    "mps-limits-not-applied": on_node(faults.MpsLimitsNotApplied()),
    "smi-missing": on_node(faults.SmiMissing()),
    "time slice not supported": no_time_slice,
}

# With these, things are otherwise afterwards.
LASTING: Final[dict[str, Begin]] = {
    "mps-killed": mps_killed,
    "driver unloaded": lambda node, _: node.unload_driver(),
    "driver reloaded": lambda node, _: node.reload_driver(),
    "driver exchanged": lambda node, _: node.reload_driver("590"),
    "reboot": lambda node, _: node.reboot(),
}


@pytest_asyncio.fixture
async def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> AsyncIterator[Bed]:
    patience = PATIENCE if fault.startswith("call-hangs") else Patience()
    node = with_walls(sim.create(tmp_path / "node", "H100-80GB:2", driver="615"))
    monkeypatch.setattr(smi, "TIMEOUT", PROGRAM_PATIENCE)
    async with opened(node, specs=CdiSpecs((node.cdi,)), patience=patience) as hardware:
        monkeypatch.setattr(hardware._mps, "_patience", PROGRAM_PATIENCE)
        # Of a length that a socket can have.
        with tempfile.TemporaryDirectory(prefix="mps-", dir="/tmp") as directory:
            yield await bed_of(node, hardware, Path(directory))
            kill_programs_of(node)
            unmount_below(Path(directory))


def test_nothing_is_forgotten() -> None:
    assert {fault.partition(",")[0] for fault in MENDED | LASTING} >= set(faults.FAULTS)
    methods = {name for name in vars(GpuNode) if not name.startswith("_")} - {"open", "close", "hung"}
    assert methods == {operation.method for operation in OPERATIONS.values()}


async def meet(bed: Bed, name: str, fault: str) -> HardwareError | None:
    """What becomes of the operation, after what has to hold in any case."""
    operation = OPERATIONS[name]
    await bed.reset(operation)
    (MENDED | LASTING)[fault](bed.node, operation.gpu(bed))
    before = bed.real()
    failure: HardwareError | None = None
    began = asyncio.get_running_loop().time()
    try:
        await operation.run(bed)
    except HardwareError as error:
        failure = error
    assert asyncio.get_running_loop().time() - began < DEADLINE
    now = bed.real()
    assert now.get(FOREIGN) is before.get(FOREIGN)
    if failure:
        changed_to = now.get(PLACE, before.get(PLACE))
        assert changed_to is before.get(PLACE) or isinstance(failure, LeftoverError | DriverHungError), failure
    return failure


@pytest.mark.parametrize("fault", MENDED)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_fault_that_is_mended(bed: Bed, name: str, fault: str) -> None:
    async def answers() -> None:
        assert bed.hardware.hung() is None

    await meet(bed, name, fault)
    bed.node.clear()
    if fault == "time slice not supported":
        bed.node.set_timeslice(OPERATIONS[name].gpu(bed), sim.Timeslice.DEFAULT)
    await eventually(answers)
    assert await bed.seen() == bed.real()
    await OPERATIONS[name].run(bed)
    assert await OPERATIONS[name].succeeded(bed)


@pytest.mark.parametrize("fault", LASTING)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_fault_that_lasts(bed: Bed, name: str, fault: str) -> None:
    failure = await meet(bed, name, fault)
    if fault == "driver exchanged":
        # The next agent is another process, which this test cannot be: a library that is loaded stays loaded.
        assert isinstance(failure, DriverExchangedError) or OPERATIONS[name].runs_programs
        return
    if fault == "driver unloaded":
        bed.node.load_driver()
    # The next agent.
    async with opened(bed.node, specs=CdiSpecs((bed.node.cdi,))) as hardware:
        bed.hardware = hardware
        assert await bed.seen() == bed.real()
        assert len((await hardware.inventory()).gpus) == 2
