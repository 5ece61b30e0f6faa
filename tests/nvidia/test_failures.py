"""Each operation meets what can go wrong at each of the driver's functions that it calls.

It succeeds or fails with a typed error that names what failed, within its time; nothing half made stays unreported;
what belongs to others is left alone; and once the driver is well, the operation is repeated and succeeds.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from gpusharing import sim
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.driver_thread import Patience
from gpusharing.nvidia.errors import DriverHungError, HardwareError, LeftoverError
from gpusharing.sim import faults
from harness.eventually import eventually
from nvidia.nodes import calls_of, opened, with_walls
from nvidia.operations import FOREIGN, OPERATIONS, PLACE, Bed, Operation, bed_of

pytestmark = pytest.mark.slow

PATIENCE: Final = Patience(question=0.3, change=0.3)
CODES: Final = [1, 2, 3, 4, 6, 9, 10, 15, 16, 17, 18, 19, 23, 999]
NAMES: Final = [name for name, operation in OPERATIONS.items() if not operation.runs_programs]
# In the simulation it cannot go wrong.
HARMLESS: Final = "nvmlShutdown"


async def functions_of(bed: Bed, operation: Operation) -> list[str]:
    await bed.reset(operation)
    with calls_of(bed.hardware) as functions:
        await operation.run(bed)
    # Once each, in their order.
    return [function for function in dict.fromkeys(functions) if function != HARMLESS]


async def meet(bed: Bed, operation: Operation, fault: faults.Fault) -> HardwareError | None:
    """What becomes of the operation."""
    await bed.reset(operation)
    before = bed.real().get(PLACE)
    bed.node.inject(fault)
    try:
        await operation.run(bed)
    except HardwareError as error:
        failure: HardwareError | None = error
    else:
        failure = None
    now = bed.real()
    assert now[FOREIGN] is True
    if isinstance(failure, LeftoverError):
        assert failure.place == PLACE
    elif failure is not None:
        # It is as it was, or as it was to be.
        assert PLACE not in now or now[PLACE] is (before is True), failure
    bed.node.clear()
    return failure


async def succeeds_now(bed: Bed, operation: Operation) -> None:
    await operation.run(bed)
    assert await operation.succeeded(bed)
    assert await bed.seen() == bed.real()


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    return with_walls(sim.create(tmp_path / "node", "H100-80GB:2", driver="615"))


@pytest.mark.parametrize("name", NAMES)
async def test_driver_that_refuses_or_lies(node: sim.SimNode, tmp_path: Path, name: str) -> None:
    operation = OPERATIONS[name]
    async with opened(node, specs=CdiSpecs((node.cdi,))) as hardware:
        bed = await bed_of(node, hardware, tmp_path)
        for function in await functions_of(bed, operation):
            wrong = [faults.CallFails(function, code) for code in CODES]
            for fault in (*wrong, *(faults.CallFails(function, code, times=1) for code in (2, 999))):
                failure = await meet(bed, operation, fault)
                if failure is not None:
                    named = function.removesuffix("_v2").removesuffix("_v3"), operation.gpu(bed)
                    assert any(name in str(failure) for name in named), failure
                await succeeds_now(bed, operation)
            await meet(bed, operation, faults.CallLies(function))
            await succeeds_now(bed, operation)


@pytest.mark.parametrize("name", NAMES)
async def test_driver_that_hangs(node: sim.SimNode, tmp_path: Path, name: str) -> None:
    operation = OPERATIONS[name]
    async with opened(node, specs=CdiSpecs((node.cdi,)), patience=PATIENCE) as hardware:
        bed = await bed_of(node, hardware, tmp_path)

        async def answers() -> None:
            assert hardware.hung() is None

        for function in await functions_of(bed, operation):
            await bed.reset(operation)
            node.inject(faults.CallHangs(function))
            began = asyncio.get_running_loop().time()
            with pytest.raises(DriverHungError, match=function):
                await operation.run(bed)
            assert asyncio.get_running_loop().time() - began < PATIENCE.change + 1
            with pytest.raises(DriverHungError):
                await hardware.inventory()
            node.clear()
            await eventually(answers)
            # What the hung call was part of is cleaned up before anything else is done.
            await hardware.inventory()
            assert bed.real()[FOREIGN] is True
            await succeeds_now(bed, operation)


@pytest.mark.parametrize("name", NAMES)
async def test_gpu_that_is_lost(node: sim.SimNode, tmp_path: Path, name: str) -> None:
    """The other one works on."""
    operation = OPERATIONS[name]
    async with opened(node, specs=CdiSpecs((node.cdi,))) as hardware:
        bed = await bed_of(node, hardware, tmp_path)
        await bed.reset(operation)
        for lost, other in ((bed.cut, bed.whole), (bed.whole, bed.cut)):
            node.inject(faults.GpuLost(lost))
            with suppress(HardwareError):
                await operation.run(bed)
            assert [board.uuid for board in (await hardware.inventory()).boards] == [other]
            node.clear()
            await hardware.inventory()
            await succeeds_now(bed, operation)
            await bed.reset(operation)
