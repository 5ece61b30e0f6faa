"""What GPUs report by themselves reaches whoever asks, once, and names the GPU."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.nvidia import sysfs
from gpusharing.nvidia.errors import DriverGoneError, HardwareError
from gpusharing.nvidia.facts import MigPlace
from gpusharing.nvidia.gpu_event import EventKind, GpuEvent
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import faults
from nvidia.nodes import opened, uuid


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    return sim.create(tmp_path / "node", "H100-80GB:3")


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode) -> AsyncIterator[Hardware]:
    """It watches already."""
    async with opened(node) as hardware:
        assert await hardware.events() == ()
        yield hardware


def xid(node: sim.SimNode, number: int, index: int = 0, **instance: Any) -> GpuEvent:
    """One after which the GPU works, as the driver says."""
    return GpuEvent(
        kind=EventKind.XID,
        uuid=uuid(node, index),
        xid=number,
        needs_recovery=False,
        driver_load=sysfs.driver_load(node.sys),
        **instance,
    )


async def test_errors_are_told_once_in_their_order(node: sim.SimNode, hardware: Hardware) -> None:
    node.inject(faults.Xid(uuid(node, 1), 94))
    node.inject(faults.Xid(uuid(node), 92, gpu_instance=3, compute_instance=0))
    assert await hardware.events() == (
        xid(node, 94, 1),
        xid(node, 92, gpu_instance=3, compute_instance=0),
    )
    assert await hardware.events() == ()


async def test_what_happened_before_the_watch_began_is_not_told(node: sim.SimNode) -> None:
    node.inject(faults.Xid(uuid(node), 94))
    async with opened(node) as hardware:
        assert await hardware.events() == ()


RECOVERY_NEEDED = {"xid": 48}
NO_RECOVERY_NEEDED = {"xid": 48, "recovery": 0}


@pytest.mark.parametrize(
    ("driver", "fault", "expected"),
    [
        ("580", RECOVERY_NEEDED, True),
        ("580", NO_RECOVERY_NEEDED, False),
        ("580", {"xid": 13}, False),
        # Not of this GPU.
        ("580", {"xid": 149, "recovery": pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN}, False),
        ("580", {"xid": 48, "recovery": 99}, True),
        ("550", RECOVERY_NEEDED, None),
    ],
)
async def test_the_driver_says_whether_an_error_needs_recovery(
    tmp_path: Path, driver: str, fault: dict[str, int], expected: bool | None
) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB:2", driver=driver)
    async with opened(node) as hardware:
        await hardware.events()
        node.inject(faults.Xid(uuid(node), **fault))
        event = (await hardware.events())[0]
        assert (event.xid, event.needs_recovery) == (fault["xid"], expected)


async def test_the_driver_is_asked_once_for_many_errors(node: sim.SimNode, hardware: Hardware) -> None:
    for number in range(100):
        node.inject(faults.Xid(uuid(node), 1000 + number))
    node.inject(faults.CallFails("nvmlDeviceGetFieldValues", 999, after=1))
    events = await hardware.events()
    assert [event.needs_recovery for event in events] == [False] * 100


async def test_errors_are_read_although_nothing_more_is_known(node: sim.SimNode, hardware: Hardware) -> None:
    node.inject(faults.Xid(uuid(node), 48, gpu_instance=3))
    node.inject(faults.CallFails("nvmlDeviceGetFieldValues", 999, gpu=uuid(node)))
    event = (await hardware.events())[0]
    assert (event.xid, event.needs_recovery, event.place) == (48, None, None)


async def test_an_error_names_the_place_of_its_mig_instance(node: sim.SimNode, hardware: Hardware) -> None:
    await hardware.set_mig_mode(uuid(node), enabled=True)
    for start in (0, 4):
        await hardware.create_mig_instance(uuid(node), MigPlace(9, start))
    await hardware.events()
    first, second = node.gpus()[0].gpu_instances
    assert (first.start, second.start) == (0, 4)
    node.inject(faults.Xid(uuid(node), 94, gpu_instance=second.id, compute_instance=0))
    # Of one that was destroyed meanwhile, nobody knows where it was.
    node.inject(faults.Xid(uuid(node), 94, gpu_instance=9, compute_instance=0))
    node.inject(faults.Xid(uuid(node), 94))
    places = [event.place for event in await hardware.events()]
    assert places == [MigPlace(9, 4), None, None]


async def test_changes_by_others_are_noticed(node: sim.SimNode, hardware: Hardware) -> None:
    async with opened(node) as other:
        await other.set_mig_mode(uuid(node, 2), enabled=True)
        await other.create_mig_instance(uuid(node, 2), MigPlace(19, 0))
    events = await hardware.events()
    assert {(event.kind, event.uuid) for event in events} == {(EventKind.MIG_CHANGED, uuid(node, 2))}


async def test_lost_gpu_is_told_once_and_hides_nobody(node: sim.SimNode, hardware: Hardware) -> None:
    lost = uuid(node, 1)
    node.inject(faults.Xid(uuid(node), 94))
    node.inject(faults.GpuLost(lost))
    node.inject(faults.Xid(uuid(node, 2), 63))
    events = await hardware.events()
    assert events[:3] == (xid(node, 94), replace(xid(node, 79, 1), needs_recovery=None), xid(node, 63, 2))
    # It cannot say its name any more.
    assert events[3:] == (GpuEvent(kind=EventKind.LOST, uuid=None),)
    node.inject(faults.Xid(uuid(node, 2), 92))
    assert await hardware.events() == (xid(node, 92, 2),)
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
    node.inject(faults.Xid(uuid(node), 63))
    events = [event for event in await hardware.events() if event.kind is EventKind.XID]
    assert events == [xid(node, 94), xid(node, 63)]
    node.inject(faults.Xid(uuid(node), 92))
    assert await hardware.events() == (xid(node, 92),)


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
    node.inject(faults.Xid(uuid(node), 63))
    assert xid(node, 63) in await hardware.events()


@pytest.mark.parametrize(("driver", "needs_recovery"), [("535", None), ("615", False)])
async def test_old_and_new_drivers(tmp_path: Path, driver: str, needs_recovery: bool | None) -> None:
    node = sim.create(tmp_path / driver, "A100-80GB,T4", driver=driver)
    async with opened(node) as hardware:
        assert await hardware.events() == ()
        node.inject(faults.Xid(uuid(node, 1), 94))
        assert await hardware.events() == (replace(xid(node, 94, 1), needs_recovery=needs_recovery),)
