"""What GPUs report by themselves reaches whoever asks, once, and names the GPU."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.hardware.nodes import opened, uuid
from gpusharing import sim
from gpusharing.agent.hardware.errors import DriverGoneError, HardwareError
from gpusharing.agent.hardware.facts import EventKind, GpuEvent, MigPlace
from gpusharing.agent.hardware.node import Hardware
from gpusharing.sim import faults


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    return sim.create(tmp_path / "node", "H100-80GB:3")


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode) -> AsyncIterator[Hardware]:
    """It watches already."""
    async with opened(node) as hardware:
        assert await hardware.events() == ()
        yield hardware


def xid(node: sim.SimNode, number: int, index: int = 0, **instance: int) -> GpuEvent:
    return GpuEvent(kind=EventKind.XID, uuid=uuid(node, index), xid=number, **instance)


async def test_errors_are_told_once_in_their_order(node: sim.SimNode, hardware: Hardware) -> None:
    node.inject(faults.Xid(uuid(node, 1), 94))
    node.inject(faults.Xid(uuid(node), 48, gpu_instance=3, compute_instance=0))
    assert await hardware.events() == (
        xid(node, 94, 1),
        xid(node, 48, gpu_instance=3, compute_instance=0),
    )
    assert await hardware.events() == ()


async def test_what_happened_before_the_watch_began_is_not_told(node: sim.SimNode) -> None:
    node.inject(faults.Xid(uuid(node), 94))
    async with opened(node) as hardware:
        assert await hardware.events() == ()


@pytest.mark.parametrize(("number", "programs"), [(13, True), (31, True), (43, True), (48, False), (79, False)])
async def test_faults_of_programs_are_told_apart(
    node: sim.SimNode, hardware: Hardware, number: int, programs: bool
) -> None:
    node.inject(faults.Xid(uuid(node), number))
    (event,) = await hardware.events()
    assert event.is_programs_fault is programs


async def test_changes_by_others_are_noticed(node: sim.SimNode, hardware: Hardware) -> None:
    async with opened(node) as other:
        await other.set_mig_mode(uuid(node, 2), enabled=True)
        await other.create_mig_instance(uuid(node, 2), MigPlace(19, 0))
    events = await hardware.events()
    assert set(events) == {GpuEvent(kind=EventKind.MIG_CHANGED, uuid=uuid(node, 2))}


async def test_lost_gpu_is_told_once_and_hides_nobody(node: sim.SimNode, hardware: Hardware) -> None:
    lost = uuid(node, 1)
    node.inject(faults.Xid(uuid(node), 94))
    node.inject(faults.GpuLost(lost))
    node.inject(faults.Xid(uuid(node, 2), 95))
    events = await hardware.events()
    assert events[:3] == (xid(node, 94), xid(node, 79, 1), xid(node, 95, 2))
    # It cannot say its name any more.
    assert events[3:] == (GpuEvent(kind=EventKind.LOST, uuid=None),)
    node.inject(faults.Xid(uuid(node, 2), 48))
    assert await hardware.events() == (xid(node, 48, 2),)
    assert await hardware.events() == ()


async def test_gpu_that_is_lost_from_the_beginning(node: sim.SimNode) -> None:
    node.inject(faults.GpuLost(uuid(node, 1)))
    async with opened(node) as hardware:
        node.inject(faults.GpuLost(uuid(node, 1)))
        assert await hardware.events() == (GpuEvent(kind=EventKind.LOST, uuid=None),)
        node.inject(faults.Xid(uuid(node), 94))
        assert await hardware.events() == (xid(node, 94),)


async def test_nothing_is_lost_when_the_session_is_renewed(node: sim.SimNode, hardware: Hardware) -> None:
    """As it is by every change of a MIG mode, and whenever a GPU does not answer."""
    node.inject(faults.Xid(uuid(node), 94))
    await hardware.set_mig_mode(uuid(node, 1), enabled=True)
    node.inject(faults.Xid(uuid(node), 95))
    events = [event for event in await hardware.events() if event.kind is EventKind.XID]
    assert events == [xid(node, 94), xid(node, 95)]
    node.inject(faults.Xid(uuid(node), 48))
    assert await hardware.events() == (xid(node, 48),)


async def test_gpu_that_cannot_be_watched_is_named(node: sim.SimNode) -> None:
    async with opened(node) as hardware:
        node.inject(faults.CallFails("nvmlDeviceRegisterEvents", 3, gpu=uuid(node, 2)))
        assert await hardware.events() == (GpuEvent(kind=EventKind.UNMONITORED, uuid=uuid(node, 2)),)
        node.inject(faults.Xid(uuid(node, 2), 94))
        node.inject(faults.Xid(uuid(node, 0), 94))
        assert await hardware.events() == (xid(node, 94),)


@pytest.mark.parametrize(("code", "kind"), [(9, DriverGoneError), (999, HardwareError), (4, HardwareError)])
async def test_driver_that_does_not_tell(
    node: sim.SimNode, hardware: Hardware, code: int, kind: type[HardwareError]
) -> None:
    node.inject(faults.CallFails("nvmlEventSetWait", code))
    with pytest.raises(kind):
        await hardware.events()
    node.clear()
    node.inject(faults.Xid(uuid(node), 94))
    await hardware.events()
    node.inject(faults.Xid(uuid(node), 95))
    assert xid(node, 95) in await hardware.events()


@pytest.mark.parametrize("driver", ["535", "615"])
async def test_old_and_new_drivers(tmp_path: Path, driver: str) -> None:
    node = sim.create(tmp_path / driver, "A100-80GB,T4", driver=driver)
    async with opened(node) as hardware:
        assert await hardware.events() == ()
        node.inject(faults.Xid(uuid(node, 1), 94))
        assert await hardware.events() == (xid(node, 94, 1),)
