"""What becomes of a policy, as its status says it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from building import (
    EXCLUSIVE,
    LATER,
    MINOR,
    NOW,
    claim,
    decided,
    gpu_status,
    node,
    node_sharing,
    policy,
    reference,
    result,
    time_slicing,
    world,
)
from building.cluster import agents_act, apply, claim_status
from building.from_nothing import World, decide
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import NodeSharingSpec
from gpusharing.api.sharing.offers import ExclusiveOffer, MigOffer, Offers, TimeSlicingOffer
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_status import ClientCount, GpuCount, NodeCount, SharingPolicyStatus
from gpusharing.core.intents import PatchStatus
from gpusharing.core.policies.policy import examine
from gpusharing.core.reasons import Complaint, ConditionType, DegradedReason
from gpusharing.core.status.policy_status import policy_status
from gpusharing.core.status.totals import Totals

THIRDS = policy("thirds", generation=3)
NOT_APPLIED = "not in force on 1 of 1 node yet: n1: the agent has not applied the change yet"
RIVAL = policy("rival", priority=10)

FIVE_WHOLE = [f"gpu-{slot}" for slot in range(5)]


def node_with(
    name: str,
    winners: Sequence[SharingPolicy | None],
    in_force: Sequence[SharingPolicy | None] | None = None,
    held: Sequence[str] = (),
) -> NodeSharing:
    """A node whose spec is written; its agent has seen it, and says what is in force."""
    spec = NodeSharingSpec(gpus=tuple(decided(slot, winner, node=name) for slot, winner in enumerate(winners)))
    gpus = [
        gpu_status(slot, node=name, in_force=reference(winner) if winner else None)
        for slot, winner in enumerate(winners if in_force is None else in_force)
    ]
    sharing = node_sharing(name, gpus=gpus, spec=spec, generation=4, observed_generation=4)
    claims = tuple(map(claim_status, held))
    return sharing.model_copy(update={"status": sharing.status.model_copy(update={"claims": claims})})


def closing(sharing: NodeSharing, *slots: int) -> NodeSharing:
    """What was offered before is still there."""
    gpus = tuple(
        gpu.model_copy(
            update={"published": tuple(one.model_copy(update={"closing_since": NOW}) for one in gpu.published)}
        )
        if gpu.slot in slots
        else gpu
        for gpu in sharing.status.gpus
    )
    return sharing.model_copy(update={"status": sharing.status.model_copy(update={"gpus": gpus})})


def status_of(name: str, at: World, now: str = NOW) -> SharingPolicyStatus:
    for intent in decide(at, now=now):
        if isinstance(intent, PatchStatus) and intent.before.metadata.name == name:
            return intent.status
    return at.policies[name].status


def conditions(status: SharingPolicyStatus) -> dict[str, tuple[str, str, str]]:
    return {item.type: (item.status.value, item.reason, item.message) for item in status.conditions}


def selecting(expression: str) -> SharingPolicy:
    return policy("thirds", generation=3, selectors=[expression])


class Case(NamedTuple):
    world: World
    accepted: tuple[str, str, str] = ("True", "Accepted", "")
    ready: tuple[str, str, str] = ("", "", "")
    progressing: tuple[str, str, str] | None = None
    """None: as it follows from Ready."""
    conflicted: tuple[str, str, str] = ("False", "NoConflict", "")
    degraded: tuple[str, str, str] = ("False", "NotDegraded", "")
    nodes: tuple[int, int] = (0, 0)
    gpus: tuple[int, int] = (0, 0)
    clients: tuple[int, int] = (0, 0)


def progressing(ready: tuple[str, str, str]) -> tuple[str, str, str]:
    match ready:
        case (_, "WaitingForNodes", message):
            return "True", "Waiting", message.partition(" yet: ")[2]
        case (_, "NotAccepted", message):
            return "False", "Stopped", message
        case _:
            return "False", "Complete", ""


NO_NODES = (
    "False",
    "NoMatchingNodes",
    "no node with GPUs matches spec.nodes: label a node, or wait for its agent to report",
)
UNACCEPTED = policy("thirds", generation=4, accepted=False)
EDITED = policy("thirds", generation=4, offers=EXCLUSIVE)


def unseen(sharing: NodeSharing) -> NodeSharing:
    status = sharing.status.model_copy(update={"observed_generation": 3})
    return sharing.model_copy(update={"status": status})


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(world(policies=[THIRDS]), ready=NO_NODES), id="no nodes at all"),
        pytest.param(
            Case(world(policies=[THIRDS], node_sharings=[node_sharing(gpus=0)]), ready=NO_NODES), id="no GPUs on it"
        ),
        pytest.param(
            Case(
                world(
                    policies=[policy("thirds", nodes={"pool": "x"})],
                    nodes=[node("n1", pool="y")],
                    node_sharings=[node_sharing()],
                ),
                ready=NO_NODES,
            ),
            id="other labels",
        ),
        pytest.param(
            Case(
                world(policies=[THIRDS], node_sharings=[node_with("n1", [THIRDS, THIRDS])]),
                ready=("True", "Ready", "in force on 2 GPUs of 1 node"),
                nodes=(1, 1),
                gpus=(2, 0),
                clients=(0, 8),
            ),
            id="in force",
        ),
        pytest.param(
            Case(
                world(
                    policies=[THIRDS], node_sharings=[node_with("n1", [THIRDS]), node_with("n2", [THIRDS, THIRDS])]
                ),
                ready=("True", "Ready", "in force on 3 GPUs of 2 nodes"),
                nodes=(2, 2),
                gpus=(3, 0),
                clients=(0, 12),
            ),
            id="in force on two nodes",
        ),
        pytest.param(
            Case(
                world(policies=[THIRDS], node_sharings=[node_sharing()]),
                ready=("False", "WaitingForNodes", NOT_APPLIED),
                nodes=(1, 0),
                gpus=(1, 0),
                clients=(0, 4),
            ),
            id="a node that has not been told",
        ),
        pytest.param(
            Case(
                world(policies=[THIRDS], node_sharings=[unseen(node_with("n1", [THIRDS], [None]))]),
                ready=("False", "WaitingForNodes", NOT_APPLIED),
                nodes=(1, 0),
                gpus=(1, 0),
                clients=(0, 4),
            ),
            id="a node that was told and has not acted",
        ),
        pytest.param(
            Case(
                world(
                    policies=[THIRDS],
                    node_sharings=[
                        node_with("n1", [THIRDS] * 2),
                        closing(node_with("n2", [THIRDS] * 5, held=FIVE_WHOLE), 1, 2, 3, 4),
                    ],
                ),
                ready=(
                    "False",
                    "WaitingForNodes",
                    ("not in force on 1 of 2 nodes yet: n2: GPU-n2-1, GPU-n2-2, GPU-n2-3 and 1 more: in use; "
                    "the change takes effect when the last claim is released"),
                ),
                nodes=(2, 1),
                gpus=(7, 0),
                clients=(0, 28),
            ),
            id="GPUs in use",
        ),
        pytest.param(
            Case(
                world(policies=[THIRDS], node_sharings=[closing(node_with("n1", [THIRDS, THIRDS]), 1)]),
                ready=(
                    "False",
                    "WaitingForNodes",
                    ("not in force on 1 of 1 node yet: n1: GPU-n1-1: devices that are no longer offered "
                    "are being withdrawn since 2026-11-18T12:00:00Z, until 2026-11-18T13:00:00Z: that takes so long "
                    "because ValidatingAdmissionPolicy gpusharing-closing or its binding is missing or changed; see "
                    "docs/tenants.md#when-gpus-change-hands"),
                ),
                nodes=(1, 0),
                gpus=(2, 0),
                clients=(0, 8),
            ),
            id="a GPU that nobody holds, and that is not there yet",
        ),
        pytest.param(
            Case(
                world(policies=[EDITED], node_sharings=[node_with("n1", [EDITED], [THIRDS], ["gpu-0-timeslicing"])]),
                ready=("False", "WaitingForNodes", NOT_APPLIED),
                nodes=(1, 0),
                gpus=(1, 0),
                clients=(0, 1),
            ),
            id="an earlier generation is in force",
        ),
        pytest.param(
            Case(
                world(policies=[THIRDS], node_sharings=[closing(node_with("n1", [THIRDS], [RIVAL]), 0)]),
                ready=(
                    "False",
                    "WaitingForNodes",
                    ("not in force on 1 of 1 node yet: n1: GPU-n1-0: devices that are no longer offered "
                    "are being withdrawn since 2026-11-18T12:00:00Z, until 2026-11-18T13:00:00Z: that takes so long "
                    "because ValidatingAdmissionPolicy gpusharing-closing or its binding is missing or changed; see "
                    "docs/tenants.md#when-gpus-change-hands"),
                ),
                nodes=(1, 0),
                gpus=(1, 0),
                clients=(0, 4),
            ),
            id="a GPU on its way to the pool of this policy",
        ),
        pytest.param(
            Case(
                world(policies=[THIRDS, RIVAL], node_sharings=[node_with("n1", [RIVAL, RIVAL])]),
                ready=(
                    "False",
                    "LostAllGpus",
                    "other policies won every GPU that this policy selects (2): see condition Conflicted",
                ),
                conflicted=(
                    "True",
                    "LostGpus",
                    "lost 2 GPUs: GPU-n1-0 of n1 to rival (LowerPriority), GPU-n1-1 of n1 to rival (LowerPriority)",
                ),
                nodes=(1, 0),
                gpus=(0, 2),
            ),
            id="lost all",
        ),
        pytest.param(
            Case(
                world(
                    policies=[THIRDS, policy("rival", max_per_node=1)],
                    node_sharings=[node_with("n1", [policy("rival"), THIRDS])],
                ),
                ready=("True", "Ready", "in force on 1 GPU of 1 node"),
                conflicted=("True", "LostGpus", "lost 1 GPU: GPU-n1-0 of n1 to rival (NameSortsLater)"),
                nodes=(1, 1),
                gpus=(1, 1),
                clients=(0, 4),
            ),
            id="lost one and ready with the other",
        ),
        pytest.param(
            Case(
                world(policies=[UNACCEPTED], node_sharings=[node_with("n1", [THIRDS, None])]),
                accepted=(
                    "False",
                    "InvalidSelector",
                    (
                        "spec.gpus.selectors[0].cel.expression is not valid; until it is corrected, the GPUs of this "
                        "policy stay unchanged: line 1, column 1: there is no 'nonsense'\nnonsense\n^"
                    ),
                ),
                ready=("False", "NotAccepted", "see condition Accepted"),
                nodes=(1, 1),
                gpus=(1, 0),
                clients=(0, 4),
            ),
            id="not accepted, and still in force as it was",
        ),
        pytest.param(
            Case(
                world(
                    policies=[selecting('device.attributes["gpu.nvidia.com"].architecture == "Ada Lovelace"')],
                    node_sharings=[node_with("n1", [None])],
                ),
                ready=(
                    "False",
                    "NoMatchingGpus",
                    (
                        "no GPU on 1 node of spec.nodes matches spec.gpus.selectors: compare the selectors with "
                        "status.gpus[].attributes of the NodeSharings"
                    ),
                ),
                nodes=(1, 0),
            ),
            id="a selector that matches nothing",
        ),
        pytest.param(
            Case(
                world(
                    policies=[selecting('device.attributes["gpu.nvidia.com"].nvlink')],
                    node_sharings=[node_with("n1", [THIRDS, None])],
                ),
                ready=("True", "Ready", "in force on 1 GPU of 1 node"),
                degraded=(
                    "True",
                    "SelectorError",
                    ("a selector of spec.gpus.selectors fails on 2 GPUs, left unchanged: "
                    "GPU-n1-0 of n1, GPU-n1-1 of n1: no such key: nvlink"),
                ),
                nodes=(1, 1),
                gpus=(1, 0),
                clients=(0, 4),
            ),
            id="a selector that fails: the GPUs stay as they are",
        ),
        pytest.param(
            Case(
                world(
                    policies=[selecting('device.attributes["gpu.nvidia.com"].nvlink')],
                    node_sharings=[node_with("n1", [None])],
                ),
                ready=(
                    "False",
                    "NoMatchingGpus",
                    ("no GPU on 1 node of spec.nodes matches spec.gpus.selectors: a selector fails on 1 GPU: "
                    "see condition Degraded"),
                ),
                degraded=(
                    "True",
                    "SelectorError",
                    ("a selector of spec.gpus.selectors fails on 1 GPU, left unchanged: "
                    "GPU-n1-0 of n1: no such key: nvlink"),
                ),
                nodes=(1, 0),
            ),
            id="a selector that fails on all: Ready points to it",
        ),
    ],
)  # fmt: skip
def test_statuses(case: Case) -> None:
    status = status_of("thirds", case.world)
    assert conditions(status) == {
        "Accepted": case.accepted,
        "Ready": case.ready,
        "Progressing": case.progressing or progressing(case.ready),
        "Conflicted": case.conflicted,
        "Degraded": case.degraded,
    }
    generation = case.world.policies["thirds"].metadata.generation
    assert status.observed_generation == generation
    assert {item.observed_generation for item in status.conditions} == {generation}
    assert status.nodes == NodeCount(selected=case.nodes[0], ready=case.nodes[1])
    assert len(status.lagging) == (case.nodes[0] - case.nodes[1] if case.ready[1] == "WaitingForNodes" else 0)
    assert status.gpus == GpuCount(won=case.gpus[0], lost=case.gpus[1])
    assert status.clients == ClientCount(current=case.clients[0], max=case.clients[1])


def test_exclusive_and_shared_gpus_hold_as_many_clients_as_the_widest_way_allows() -> None:
    both = policy("thirds", offers=time_slicing(6, exclusive=True))
    status = status_of("thirds", world(policies=[both], node_sharings=[node_with("n1", [both, both])]))
    assert status.clients == ClientCount(current=0, max=12)


SHARED = "gpu-0-timeslicing"


@pytest.mark.parametrize(
    ("claims", "current"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([claim("c1", result(SHARED)), claim("c2", result(SHARED))], 2, id="two of one GPU"),
        pytest.param([claim("c1", result("gpu-0"))], 1, id="a whole GPU"),
        pytest.param([claim("c1", result(SHARED), result("gpu-1-timeslicing"))], 2, id="two places for one claim"),
        pytest.param([claim("c1", result(SHARED, admin_access=True))], 0, id="admin access does not use anything"),
        pytest.param([claim("c1", result(SHARED, driver="other"))], 0, id="another driver"),
        pytest.param([claim("c1", result(SHARED, pool="n9"))], 0, id="a pool that nobody has"),
        pytest.param([claim("c1", result(SHARED, pool="n1/thirds"))], 1, id="the policy's own pool"),
        pytest.param([claim("c1", result("gpu-2-timeslicing"))], 0, id="a GPU of another policy"),
        pytest.param([claim("c1", result("gpu-3-timeslicing"))], 0, id="a GPU of no policy"),
        pytest.param([claim("c1", result("gpu-9"))], 0, id="a GPU that is gone"),
        pytest.param([claim("c1", result("nic-0"))], 0, id="no GPU at all"),
        pytest.param([claim("c1", allocated=False)], 0, id="not allocated"),
        pytest.param([claim("c1", result(SHARED), result(SHARED, pool="n2"))], 2, id="one device on each of two nodes"),
    ],
)
def test_clients(claims: list[ResourceClaim], current: int) -> None:
    other = policy("other", max_per_node=1, priority=-1)
    first, second = node_with("n1", [THIRDS, THIRDS, other, None]), node_with("n2", [THIRDS])
    at = world(policies=[policy("thirds", generation=3)], node_sharings=[first, second], claims=claims)
    assert (status_of("thirds", at).clients or ClientCount(current=-1, max=-1)).current == current


def test_clients_count_for_the_policy_in_force_not_for_the_one_to_come() -> None:
    at = world(
        policies=[THIRDS, RIVAL],
        node_sharings=[node_with("n1", [RIVAL], [THIRDS])],
        claims=[claim("c1", result(SHARED))],
    )
    clients = {name: status_of(name, at).clients for name in ("thirds", "rival")}
    assert clients == {"thirds": ClientCount(current=1, max=0), "rival": ClientCount(current=0, max=4)}


def condition_of(status: SharingPolicyStatus, type_: str) -> Condition:
    [found] = [condition for condition in status.conditions if condition.type == type_]
    return found


def with_status(at: World, status: SharingPolicyStatus) -> SharingPolicy:
    return at.policies["thirds"].model_copy(update={"status": status})


def test_transition_times_move_with_the_status_only() -> None:
    nothing = world(policies=[THIRDS])
    first = status_of("thirds", nothing, NOW)
    assert {condition.last_transition_time for condition in first.conditions} == {NOW}
    # Another reason, the same status: False.
    told = world(policies=[with_status(nothing, first)], node_sharings=[node_sharing()])
    waiting = status_of("thirds", told, LATER)
    assert condition_of(waiting, "Ready").reason == "WaitingForNodes"
    assert {item.last_transition_time for item in waiting.conditions if item.type != "Progressing"} == {NOW}
    assert condition_of(waiting, "Progressing").last_transition_time == LATER
    done = world(policies=[with_status(told, waiting)], node_sharings=[node_with("n1", [THIRDS])])
    ready = status_of("thirds", done, LATER)
    assert condition_of(ready, "Ready").status is ConditionStatus.TRUE
    assert condition_of(ready, "Ready").last_transition_time == LATER
    assert condition_of(ready, "Accepted").last_transition_time == NOW


def test_conditions_of_others_are_not_ours_to_keep() -> None:
    stray = Condition(type="Stray", status=ConditionStatus.TRUE, reason="X", last_transition_time=NOW)
    at = world(policies=[policy("thirds", status=SharingPolicyStatus(conditions=(stray,)))])
    assert set(conditions(status_of("thirds", at))) == set(ConditionType)


@pytest.mark.parametrize("in_force", [True, False])
def test_messages_stay_short_with_a_thousand_nodes(*, in_force: bool) -> None:
    rival = policy("rival", priority=1, max_per_node=4)
    names = [f"node-{number}-{'x' * 100}" for number in range(1_000)]
    at = world(policies=[THIRDS, rival], node_sharings=[node_sharing(name, gpus=8) for name in names])
    at = apply(at, decide(at, now=NOW))
    if in_force:
        at = agents_act(at)
    else:
        told = {name: seen(sharing) for name, sharing in at.node_sharings.items()}
        at = replace(at, node_sharings=told)
    status = status_of("thirds", at)
    assert status.gpus == GpuCount(won=4_000, lost=4_000)
    assert all(len(condition.message) < 2_000 for condition in status.conditions)
    assert condition_of(status, "Conflicted").message.endswith(" and 3997 more")
    ready = condition_of(status, "Ready").message
    assert ready == "in force on 4000 GPUs of 1000 nodes" if in_force else ready.endswith(" and 997 more")


def seen(sharing: NodeSharing) -> NodeSharing:
    status = sharing.status.model_copy(update={"observed_generation": sharing.metadata.generation})
    return sharing.model_copy(update={"status": status})


def can_be_cut(sharing: NodeSharing) -> NodeSharing:
    gpus = tuple(gpu.model_copy(update={"mig_profiles": ("1g.10gb",)}) for gpu in sharing.status.gpus)
    return sharing.model_copy(update={"status": sharing.status.model_copy(update={"gpus": gpus})})


MIG_UNKNOWN = MigOffer(profiles=("9g.90gb",))


@pytest.mark.parametrize(
    ("offers", "ready", "most"),
    [
        pytest.param(
            Offers(mig=MIG_UNKNOWN),
            (
                "False",
                "NothingOffered",
                "no offer of this policy fits any of the 4 GPUs that it won: see condition Degraded",
            ),
            0,
            id="the only offer",
        ),
        pytest.param(
            Offers(mig=MIG_UNKNOWN, time_slicing=TimeSlicingOffer(max_clients=2)),
            ("True", "Ready", "in force on 4 GPUs of 2 nodes"),
            8,
            id="one of two",
        ),
    ],
)
def test_offers_that_do_not_fit(offers: Offers, ready: tuple[str, str, str], most: int) -> None:
    wrong = policy("thirds", generation=3, offers=offers)
    at = world(policies=[wrong], node_sharings=[can_be_cut(node_sharing(name, gpus=2)) for name in ("n1", "n2")])
    status = status_of("thirds", agents_act(apply(at, decide(at, now=NOW))))
    assert status.clients == ClientCount(current=0, max=most)
    found = conditions(status)
    assert found["Ready"] == ready
    # The cause once, not for each GPU.
    assert found["Degraded"] == (
        "True",
        "UnknownMigProfile",
        (
            "some offers cannot be provided on some GPUs: GPU-n1-0 of n1, GPU-n1-1 of n1, GPU-n2-0 of n2 and 1 more: "
            "offers.mig.profiles: this GPU does not support 9g.90gb; it supports 1g.10gb"
        ),
    )


BOTH_WAYS = Offers(exclusive=ExclusiveOffer(), time_slicing=TimeSlicingOffer(max_clients=2))
CUT_ON_DEMAND = Offers(mig=MigOffer(profiles=("1g.10gb",)))


@pytest.mark.parametrize(
    ("minor", "nodes", "offers", "reason"),
    [
        (36, 21, BOTH_WAYS, "SlowScheduler"),
        (36, 21, CUT_ON_DEMAND, "SlowScheduler"),
        (36, 20, BOTH_WAYS, "NotDegraded"),
        (37, 21, BOTH_WAYS, "NotDegraded"),
        (36, 21, EXCLUSIVE, "NotDegraded"),
        (36, 21, Offers(mig=MigOffer(layout={"1g.10gb": 7})), "NotDegraded"),
    ],
)
def test_counters_on_many_nodes_are_slow_before_1_37(minor: int, nodes: int, offers: Offers, reason: str) -> None:
    many = policy("many", offers=offers)
    at = world(policies=[many], node_sharings=[can_be_cut(node_with(f"n{number}", [many])) for number in range(nodes)])
    found = conditions(status_of("many", replace(at, minor=minor)))["Degraded"]
    assert found[1] == reason
    if reason == "SlowScheduler":
        assert "as on 21 nodes of this policy: upgrade to 1.37" in found[2]


def test_the_weightiest_reason_is_the_one_that_is_named() -> None:
    found = [Complaint(reason, f"about {reason}") for reason in reversed(DegradedReason) if reason != "NotDegraded"]
    status = policy_status(examine(policy(), minor=MINOR), Totals(), found, guards_pending=False, minor=MINOR, now=NOW)
    degraded = next(condition for condition in status.conditions if condition.type == "Degraded")
    assert degraded.reason == DegradedReason.INTERNAL_ERROR
    expected = [f"about {reason}" for reason in DegradedReason if reason != "NotDegraded"]
    assert degraded.message.split("; ") == expected
