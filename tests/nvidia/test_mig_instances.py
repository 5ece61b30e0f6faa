"""MIG instances are made and destroyed whole, or not at all, or what is left is named."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pynvml
import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.nvidia.errors import (
    DriverHungError,
    HardwareError,
    InUseError,
    LeftoverError,
    MigDisabledError,
    NoRoomError,
    NotOursError,
    NotSupportedError,
    SettingNotAppliedError,
)
from gpusharing.nvidia.facts import Change, GpuInstance, MigPlace
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import faults
from harness.eventually import eventually
from nvidia.nodes import SHORT, opened, uuid

CREATE_GPU_INSTANCE = "nvmlDeviceCreateGpuInstanceWithPlacement"
CREATE_COMPUTE_INSTANCE = "nvmlGpuInstanceCreateComputeInstance"
DESTROY_GPU_INSTANCE = "nvmlGpuInstanceDestroy"
DESTROY_COMPUTE_INSTANCE = "nvmlComputeInstanceDestroy"

# 3g.40gb on the upper half.
PLACE = MigPlace(9, 4)


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    return sim.create(tmp_path / "node", "H100-80GB:2")


@pytest.fixture
def gpu(node: sim.SimNode) -> str:
    return uuid(node)


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode, gpu: str) -> AsyncIterator[Hardware]:
    async with opened(node, patience=SHORT) as hardware:
        await hardware.set_mig_mode(gpu, enabled=True)
        yield hardware


def real(node: sim.SimNode) -> list[tuple[str, int, int]]:
    """Profile, start and number of compute instances of what there is, whoever says what."""
    return [(gi.profile, gi.start, len(gi.compute_instances)) for gi in node.gpus()[0].gpu_instances]


async def seen(hardware: Hardware) -> tuple[GpuInstance, ...]:
    return (await hardware.inventory()).gpus[0].instances


async def made(hardware: Hardware, gpu: str, place: MigPlace = PLACE) -> GpuInstance:
    change = await hardware.create_mig_instance(gpu, place)
    assert change.now is not None
    return change.now


async def test_remnant_is_listed_completed_and_destroyed(node: sim.SimNode, hardware: Hardware, gpu: str) -> None:
    node.inject(faults.LoneGpuInstance(gpu, "3g.40gb", 4))
    node.inject(faults.LoneGpuInstance(gpu, "1g.10gb", 0))
    upper, lower = sorted(await seen(hardware), key=lambda one: -one.span.start)
    assert (upper.is_remnant, lower.is_remnant) == (True, True)
    assert str(upper) == f"GPU instance {upper.id} (3g.40gb at 4) without compute instance"

    completed = await hardware.create_mig_instance(gpu, PLACE)
    assert completed.found == upper
    assert completed.now is not None
    assert (completed.now.id, completed.now.is_remnant) == (upper.id, False)
    assert await hardware.destroy_mig_instance(gpu, MigPlace(19, 0)) == Change(lower, None)
    assert real(node) == [("3g.40gb", 4, 1)]


async def test_place_that_is_taken(node: sim.SimNode, hardware: Hardware, gpu: str) -> None:
    await made(hardware, gpu)
    with pytest.raises(NoRoomError, match=r"1g.10gb at 6 would overlap GPU instance \d+ \(3g.40gb at 4\): check"):
        await hardware.create_mig_instance(gpu, MigPlace(19, 6))
    assert real(node) == [("3g.40gb", 4, 1)]


async def test_driver_that_has_no_room_although_there_is_some(node: sim.SimNode, hardware: Hardware, gpu: str) -> None:
    await made(hardware, gpu, MigPlace(20, 0))
    with pytest.raises(NoRoomError, match=f"GPU {gpu}: {CREATE_GPU_INSTANCE}"):
        # The one with media extensions is there once.
        await hardware.create_mig_instance(gpu, MigPlace(20, 1))
    assert real(node) == [("1g.10gb+me", 0, 1)]


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        (MigPlace(77, 0), r"no MIG profile has the number 77; known are 1g.10gb \(19\), "),
        (MigPlace(9, 2), "3g.40gb cannot begin at 2, but at 0, 4"),
    ],
)
async def test_place_that_does_not_exist(hardware: Hardware, gpu: str, where: MigPlace, problem: str) -> None:
    with pytest.raises(NotSupportedError, match=problem):
        await hardware.create_mig_instance(gpu, where)
    assert not (await hardware.destroy_mig_instance(gpu, where)).changed


async def test_mig_mode_that_is_off(node: sim.SimNode, hardware: Hardware) -> None:
    other = uuid(node, 1)
    with pytest.raises(MigDisabledError, match="enable MIG mode first"):
        await hardware.create_mig_instance(other, PLACE)
    assert not (await hardware.destroy_mig_instance(other, PLACE)).changed


async def test_gpu_without_mig(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "l4", "L4")
    async with opened(node) as hardware:
        with pytest.raises(NotSupportedError, match=uuid(node)):
            await hardware.create_mig_instance(uuid(node), PLACE)
        assert not (await hardware.destroy_mig_instance(uuid(node), PLACE)).changed


async def test_instance_that_somebody_uses(node: sim.SimNode, hardware: Hardware, gpu: str) -> None:
    instance = await made(hardware, gpu)
    assert instance.uuid is not None
    node.start_process(instance.uuid, 99, 1)
    with pytest.raises(InUseError, match=r"\(3g.40gb at 4\) is used by processes 99: end the programs that use it"):
        await hardware.destroy_mig_instance(gpu, PLACE)
    assert await seen(hardware) == (instance,)
    node.stop_process(instance.uuid, 99)
    assert await hardware.destroy_mig_instance(gpu, PLACE) == Change(instance, None)


async def test_only_the_one_that_was_meant_is_destroyed(node: sim.SimNode, hardware: Hardware, gpu: str) -> None:
    ours = await made(hardware, gpu)
    await hardware.destroy_mig_instance(gpu, PLACE, mig_uuid=ours.uuid)
    theirs = await made(hardware, gpu)
    assert theirs.uuid != ours.uuid
    with pytest.raises(NotOursError, match=f"is no longer {ours.uuid}"):
        await hardware.destroy_mig_instance(gpu, PLACE, mig_uuid=ours.uuid)
    assert await seen(hardware) == (theirs,)
    assert await hardware.destroy_mig_instance(gpu, PLACE, mig_uuid=theirs.uuid) == Change(theirs, None)


CODES = [3, 4, 10, 15, 19, 23, 999]


@pytest.mark.parametrize("code", CODES)
async def test_first_half_that_fails_leaves_nothing(node: sim.SimNode, hardware: Hardware, gpu: str, code: int) -> None:
    node.inject(faults.CallFails(CREATE_GPU_INSTANCE, code))
    with pytest.raises(HardwareError, match=f"GPU {gpu}: {CREATE_GPU_INSTANCE}"):
        await hardware.create_mig_instance(gpu, PLACE)
    assert real(node) == []


@pytest.mark.parametrize("code", CODES)
async def test_second_half_that_fails_leaves_nothing(
    node: sim.SimNode, hardware: Hardware, gpu: str, code: int
) -> None:
    node.inject(faults.CallFails(CREATE_COMPUTE_INSTANCE, code))
    with pytest.raises(HardwareError, match=f"GPU {gpu}: {CREATE_COMPUTE_INSTANCE}"):
        await hardware.create_mig_instance(gpu, PLACE)
    assert real(node) == []


@pytest.mark.parametrize("code", [10, 999])
async def test_first_half_that_is_made_although_the_driver_says_no_is_undone(
    node: sim.SimNode, hardware: Hardware, gpu: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = hardware._threads.change

    def change_and_say_no(function: Any, *arguments: Any) -> Any:
        result = change(function, *arguments)
        if function.__name__ == CREATE_GPU_INSTANCE:
            raise pynvml.NVMLError(code)
        return result

    monkeypatch.setattr(hardware._threads, "change", change_and_say_no)
    with pytest.raises(HardwareError, match=CREATE_GPU_INSTANCE):
        await hardware.create_mig_instance(gpu, PLACE)
    assert real(node) == []


@pytest.mark.parametrize("call", [CREATE_GPU_INSTANCE, CREATE_COMPUTE_INSTANCE])
async def test_half_that_is_a_lie_leaves_nothing(node: sim.SimNode, hardware: Hardware, gpu: str, call: str) -> None:
    node.inject(faults.CallLies(call))
    with pytest.raises(SettingNotAppliedError, match=r"said that it .* but there is"):
        await hardware.create_mig_instance(gpu, PLACE)
    assert real(node) == []


@pytest.mark.parametrize("undo", [faults.CallFails(DESTROY_GPU_INSTANCE, 19), faults.CallLies(DESTROY_GPU_INSTANCE)])
async def test_what_can_neither_be_finished_nor_undone_is_named(
    node: sim.SimNode, hardware: Hardware, gpu: str, undo: faults.Fault
) -> None:
    node.inject(faults.CallFails(CREATE_COMPUTE_INSTANCE, 23))
    node.inject(undo)
    with pytest.raises(LeftoverError, match=r"undoing it failed.*left is GPU instance \d+ \(3g.40gb at 4\)") as error:
        await hardware.create_mig_instance(gpu, PLACE)
    left = error.value.left
    assert left is not None
    assert left.is_remnant
    assert await seen(hardware) == (left,)
    node.clear()
    # Either way out.
    assert (await hardware.create_mig_instance(gpu, PLACE)).found == left
    assert (await hardware.destroy_mig_instance(gpu, PLACE)).changed
    assert real(node) == []


@pytest.mark.parametrize("blind_after", [0, 1, 2])
async def test_what_cannot_even_be_looked_at_any_more_is_reported(
    node: sim.SimNode, hardware: Hardware, gpu: str, blind_after: int
) -> None:
    node.inject(faults.CallFails(CREATE_COMPUTE_INSTANCE, 23))
    node.inject(faults.CallFails("nvmlGpuInstanceGetInfo", 10, after=blind_after))
    with pytest.raises(LeftoverError, match="undoing it failed, too") as error:
        await hardware.create_mig_instance(gpu, PLACE)
    node.clear()
    (left,) = await seen(hardware)
    assert (left.place, left.is_remnant) == (error.value.place, True)
    assert error.value.left in {None, left}


async def test_remnant_of_others_that_cannot_be_completed_is_left_and_named(
    node: sim.SimNode, hardware: Hardware, gpu: str
) -> None:
    node.inject(faults.LoneGpuInstance(gpu, "3g.40gb", 4))
    node.inject(faults.CallFails(CREATE_COMPUTE_INSTANCE, 23))
    with pytest.raises(LeftoverError, match="without compute instance"):
        await hardware.create_mig_instance(gpu, PLACE)
    assert real(node) == [("3g.40gb", 4, 0)]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (faults.CallFails(DESTROY_COMPUTE_INSTANCE, 19), InUseError),
        (faults.CallFails(DESTROY_COMPUTE_INSTANCE, 999), HardwareError),
        (faults.CallLies(DESTROY_COMPUTE_INSTANCE), SettingNotAppliedError),
    ],
)
async def test_destruction_that_does_not_begin_leaves_all(
    node: sim.SimNode, hardware: Hardware, gpu: str, fault: faults.Fault, kind: type[HardwareError]
) -> None:
    instance = await made(hardware, gpu)
    node.inject(fault)
    with pytest.raises(kind):
        await hardware.destroy_mig_instance(gpu, PLACE)
    assert await seen(hardware) == (instance,)
    node.clear()
    assert await hardware.destroy_mig_instance(gpu, PLACE) == Change(instance, None)


@pytest.mark.parametrize(
    "fault", [faults.CallFails(DESTROY_GPU_INSTANCE, code) for code in CODES] + [faults.CallLies(DESTROY_GPU_INSTANCE)]
)
async def test_destruction_that_stops_half_way_names_what_is_left(
    node: sim.SimNode, hardware: Hardware, gpu: str, fault: faults.Fault
) -> None:
    instance = await made(hardware, gpu)
    node.inject(fault)
    with pytest.raises(LeftoverError) as error:
        await hardware.destroy_mig_instance(gpu, PLACE)
    left = error.value.left
    assert left is not None
    assert (left.id, left.is_remnant) == (instance.id, True)
    assert await seen(hardware) == (left,)
    node.clear()
    # Also for whoever knows only the MIG device that there was.
    assert await hardware.destroy_mig_instance(gpu, PLACE, mig_uuid=instance.uuid) == Change(left, None)


async def test_lie_that_a_new_session_sees_through_is_none(node: sim.SimNode, hardware: Hardware, gpu: str) -> None:
    """A session may be behind: the instance is there, only not yet in its lists."""
    node.inject(faults.CallFails("nvmlDeviceGetGpuInstanceById", 6, times=15, after=15))
    change = await hardware.create_mig_instance(gpu, PLACE)
    assert change.now is not None
    assert real(node) == [("3g.40gb", 4, 1)]


HANGING = [
    ("create", CREATE_GPU_INSTANCE, []),
    ("create", CREATE_COMPUTE_INSTANCE, []),
    ("destroy", DESTROY_COMPUTE_INSTANCE, [("3g.40gb", 4, 0)]),
    ("destroy", DESTROY_GPU_INSTANCE, []),
]


@pytest.mark.parametrize(("operation", "call", "after"), HANGING)
async def test_driver_that_hangs_half_way(  # noqa: PLR0917 (fixtures)
    node: sim.SimNode, hardware: Hardware, gpu: str, operation: str, call: str, after: list[tuple[str, int, int]]
) -> None:
    """Who waited is told; when the driver comes back, what was to be made is undone, and nothing else is begun."""
    if operation == "destroy":
        await made(hardware, gpu)
    hang = faults.CallHangs(call, seconds=30)
    node.inject(hang)
    began = asyncio.get_running_loop().time()
    with pytest.raises(
        DriverHungError, match=f"has not answered {call}.*reboot the node if the driver does not answer again"
    ):
        await (hardware.create_mig_instance if operation == "create" else hardware.destroy_mig_instance)(gpu, PLACE)
    assert asyncio.get_running_loop().time() - began < SHORT.change + 1
    with pytest.raises(DriverHungError):
        await hardware.inventory()
    assert hardware.hung() is not None
    node.clear(hang)

    async def answers() -> None:
        assert hardware.hung() is None

    await eventually(answers)
    await hardware.inventory()
    assert real(node) == after
    assert [(one.profile, one.span.start, len(one.compute_instances)) for one in await seen(hardware)] == after
