"""What the agent offers of its GPUs, and when that changes."""

import dataclasses
from pathlib import Path

import pytest

from building import policy, reference
from building.boards import board
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.state.models import GpuJournal, MadeInstance
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.gpu_status import NOT_REPORTED, MemoryWallSupport
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.offers import (
    Enforcement,
    ExclusiveOffer,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingMemory,
    TimeSlicingOffer,
)
from gpusharing.core.devices.gpu import Board
from gpusharing.core.publishing.abilities import preparable
from gpusharing.core.publishing.menu import menu
from gpusharing.kube.clock import as_precise_moment
from gpusharing.nvidia.facts import ComputeInstance, GpuInstance, GpuState, MigMode, Span

EVERYTHING = Offers(
    exclusive=ExclusiveOffer(),
    time_slicing=TimeSlicingOffer(max_clients=4),
    mps=MpsOffer(max_clients=4, memory=MpsMemory(default="8Gi"), threads=MpsThreads(default=25)),
    mig=MigOffer(profiles=("1g.10gb",)),
)
WHOLE_ONLY = Offers(exclusive=ExclusiveOffer())

SUPPORTED = MemoryWallSupport(supported=True)


def with_memory(enforcement: Enforcement) -> Offers:
    memory = TimeSlicingMemory(default="8Gi", enforcement=enforcement)
    return Offers(time_slicing=TimeSlicingOffer(max_clients=4, memory=memory))


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (EVERYTHING, EVERYTHING),
        (with_memory(Enforcement.REQUIRED), Offers()),
        (with_memory(Enforcement.PREFERRED), with_memory(Enforcement.PREFERRED)),
        (with_memory(Enforcement.NONE), with_memory(Enforcement.NONE)),
        (Offers(mig=MigOffer(layout={"1g.10gb": 7})), Offers(mig=MigOffer(layout={"1g.10gb": 7}))),
    ],
)
async def test_only_what_the_agent_can_prepare_is_offered(wanted: Offers, left: Offers) -> None:
    assert preparable(wanted, NOT_REPORTED) == left
    # Where there can be walls, those that are required stand.
    assert preparable(wanted, SUPPORTED) == (wanted if wanted.mig is None or wanted.mig.profiles else left)


def found(*instances: GpuInstance, enabled: bool = True) -> GpuState:
    facts = {field.name: getattr(board("H100-80GB"), field.name) for field in dataclasses.fields(Board)}
    return GpuState(board=Board(**facts), mig_mode=MigMode(current=enabled, pending=enabled), instances=instances)


INSTANCE = GpuInstance(
    id=1,
    profile_id=9,
    profile="3g.40gb",
    span=Span(4, 4),
    compute_instances=(ComputeInstance(id=0, profile_id=2, span=Span(0, 3), uuid="MIG-1"),),
)
NAME = "gpu-0-mig-3g40gb-9-4"


async def devices(gpus: NodeGpus, uuid: str) -> list[str]:
    await gpus.put_in_force(gpus.plan(gpus.uuids, shown=(), now=0, answers={}))
    return [entry.device for entry in gpus.entries(uuid)]


async def test_a_gpu_that_others_have_cut_is_offered_as_it_is(tmp_path: Path) -> None:
    state = found(INSTANCE)
    gpus = NodeGpus(Records(tmp_path), node="n1")
    gpus.found([state], {state.board.uuid: NOT_REPORTED})
    gpus.told([GpuSharing(uuid=state.board.uuid)])
    assert [instance.uuid for instance in gpus.instances(state.board.uuid)] == ["MIG-1"]
    assert await devices(gpus, state.board.uuid) == [NAME]


async def test_instances_that_we_have_made_are_not_offered_as_somebody_elses(tmp_path: Path) -> None:
    state = found(INSTANCE)
    records = Records(tmp_path)
    made = MadeInstance(profile_id=9, start=4, uuid="MIG-1")
    records.put_journal(state.board.uuid, GpuJournal(mig_mode=False, instances=(made,)))
    gpus = NodeGpus(records, node="n1")
    gpus.found([state], {state.board.uuid: NOT_REPORTED})
    gpus.told([GpuSharing(uuid=state.board.uuid)])
    assert await devices(gpus, state.board.uuid) == ["gpu-0"]


async def test_what_was_decided_and_published_is_there_after_a_restart(tmp_path: Path) -> None:
    state = found(enabled=False)
    gpus = NodeGpus(Records(tmp_path), node="n1")
    gpus.found([state], {state.board.uuid: NOT_REPORTED})
    gpus.told([GpuSharing(uuid=state.board.uuid, policy=reference(policy()), offers=EVERYTHING)])
    everything = await devices(gpus, state.board.uuid)
    assert {"gpu-0", "gpu-0-timeslicing", "gpu-0-mps", "gpu-0-mig-1g10gb-19-0"} <= set(everything)
    again = NodeGpus(Records(tmp_path), node="n1")
    again.found([state], {state.board.uuid: NOT_REPORTED})
    assert [entry.device for entry in again.entries(state.board.uuid)] == everything
    assert again.published(state.board.uuid) == gpus.published(state.board.uuid)


async def test_before_the_operator_has_spoken_nothing_is_known_for_sure(tmp_path: Path) -> None:
    state = found(enabled=False)
    gpus = NodeGpus(Records(tmp_path), node="n1")
    gpus.found([state], {state.board.uuid: NOT_REPORTED})
    assert await devices(gpus, state.board.uuid) == ["gpu-0"]
    assert not gpus.published(state.board.uuid).configured


async def test_walls_come_and_go_with_what_the_driver_can_do(tmp_path: Path) -> None:
    state = found(enabled=False)
    uuid = state.board.uuid
    gpus = NodeGpus(Records(tmp_path), node="n1")
    for support in (NOT_REPORTED, SUPPORTED, NOT_REPORTED):
        gpus.found([state], {uuid: support})
        for enforcement in (Enforcement.PREFERRED, Enforcement.REQUIRED):
            gpus.told([GpuSharing(uuid=uuid, policy=reference(policy()), offers=with_memory(enforcement))])
            offered = [option.device for option in menu(gpus.wanted(uuid))]
            needed = support.supported or enforcement is Enforcement.PREFERRED
            assert offered == (["gpu-0-timeslicing"] if needed else [])
            assert gpus.published(uuid).memory_wall == support


async def test_an_approval_counts_for_the_closing_that_it_names(tmp_path: Path) -> None:
    """Not for one that began later: the operator has not looked since."""
    state = found(enabled=False)
    uuid = state.board.uuid
    gpus = NodeGpus(Records(tmp_path), node="n1")
    gpus.found([state], {uuid: NOT_REPORTED})
    shared, whole = (
        GpuSharing(uuid=uuid, policy=reference(policy()), offers=offers)
        for offers in (Offers(exclusive=ExclusiveOffer(), time_slicing=TimeSlicingOffer(max_clients=4)), WHOLE_ONLY)
    )
    gpus.told([shared])
    await devices(gpus, uuid)
    gpus.told([whole])
    await devices(gpus, uuid)
    first = closing_since(gpus, uuid, at=-2.0)
    approved = whole.model_copy(update={"close_approved": ("gpu-0-timeslicing",), "close_approved_since": (first,)})
    # It is offered again in between.
    gpus.told([shared])
    await devices(gpus, uuid)
    gpus.told([whole])
    await devices(gpus, uuid)
    second = closing_since(gpus, uuid, at=-1.999)
    assert second != first
    gpus.told([approved])
    assert await devices(gpus, uuid) == ["gpu-0", "gpu-0-timeslicing"]
    gpus.told([approved.model_copy(update={"close_approved_since": (second,)})])
    assert await devices(gpus, uuid) == ["gpu-0"]


def closing_since(gpus: NodeGpus, uuid: str, *, at: float) -> str:
    """As it is reported when the API has had the mark since then."""
    gpus.written(gpus.publications(), now=at)
    return as_precise_moment(next(entry.closing_since for entry in gpus.entries(uuid) if entry.closing_since))
