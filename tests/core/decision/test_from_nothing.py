"""The operator's decision as a whole: the writes that are missing, and no others."""

import gc
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import (
    LATER,
    NOW,
    claim,
    decided,
    gpu_status,
    node,
    node_sharing,
    policy,
    result,
    time_slicing,
    uuid,
    world,
)
from building.cluster import agents_act, apply, pods_are_evicted, with_claims, with_policies
from building.from_nothing import World, decide
from building.worlds import claims, worlds
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import ConditionStatus
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import NodeSharingSpec, Verdict
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.sharing.policy import UnreadablePolicy
from gpusharing.api.sharing.policy_status import NodeCount, SharingPolicyStatus
from gpusharing.core.events.policy_events import status_events
from gpusharing.core.intents import Create, Intent, PatchStatus, ReplaceSpec
from gpusharing.core.reasons import ConditionType

BEFORE_APPROVALS = "2026-11-18T12:59:59Z"
"""An hour after NOW, what has been closing since then may be withdrawn."""

THIRDS = policy("thirds", offers=time_slicing(3, Interval.SHORT))


def specs(intents: Sequence[Intent]) -> dict[str, NodeSharingSpec]:
    return {intent.before.metadata.name: intent.spec for intent in intents if isinstance(intent, ReplaceSpec)}


def statuses(intents: Sequence[Intent]) -> dict[str, SharingPolicyStatus]:
    return {intent.before.metadata.name: intent.status for intent in intents if isinstance(intent, PatchStatus)}


def readiness(at: World) -> dict[str, tuple[ConditionStatus, str]]:
    return {
        name: (condition.status, condition.reason)
        for name, item in at.policies.items()
        for condition in item.status.conditions
        if condition.type == "Ready"
    }


def settle(at: World) -> World:
    """Until nobody has anything to do. For each node that something goes on on, and for the statuses at the end."""
    for _ in range(3 + 3 * len(at.node_sharings)):
        at = agents_act(pods_are_evicted(apply(at, decide(at, now=NOW))))
    assert decide(at, now=BEFORE_APPROVALS) == []
    return at


def test_an_empty_world_needs_nothing() -> None:
    assert decide(world(), now=NOW) == []


def test_nodes_before_statuses_in_the_order_of_their_names() -> None:
    at = world(policies=[policy("b"), policy("a")], node_sharings=[node_sharing("n2"), node_sharing("n1")])
    intents = decide(at, now=NOW)
    written = [intent for intent in intents if isinstance(intent, ReplaceSpec | PatchStatus)]
    assert [(type(intent), intent.before.metadata.name) for intent in written] == [
        (ReplaceSpec, "n1"),
        (ReplaceSpec, "n2"),
        (PatchStatus, "a"),
        (PatchStatus, "b"),
    ]


def test_a_spec_names_the_gpus_that_the_agent_reported_in_the_order_of_their_slots() -> None:
    sharing = node_sharing(gpus=3)
    shuffled = sharing.model_copy(
        update={"status": sharing.status.model_copy(update={"gpus": sharing.status.gpus[::-1]})}
    )
    [intent] = decide(world(node_sharings=[shuffled]), now=NOW)
    assert isinstance(intent, ReplaceSpec)
    assert intent.before == shuffled
    assert intent.spec == NodeSharingSpec(gpus=(decided(0), decided(1), decided(2)))


def test_a_node_sharing_without_its_node_is_left_alone() -> None:
    at = world(policies=[THIRDS], node_sharings=[node_sharing("n1")])
    orphaned = replace(at, nodes={"n2": node("n2")})
    assert specs(decide(orphaned, now=NOW)) == {}
    assert statuses(decide(orphaned, now=NOW))["thirds"].nodes == NodeCount(selected=0, ready=0)


def test_a_claim_on_two_nodes_is_told_to_both() -> None:
    both = claim("c1", result("gpu-0", pool="n1"), result("gpu-0", pool="n2"))
    decided_ = specs(decide(world(node_sharings=[node_sharing("n1"), node_sharing("n2")], claims=[both]), now=NOW))
    assert {name: [entry.verdict for entry in spec.claims] for name, spec in decided_.items()} == {
        "n1": [Verdict.ALLOWED],
        "n2": [Verdict.ALLOWED],
    }


@pytest.mark.parametrize(
    ("item", "entries"),
    [
        (claim("c1"), 1),
        (claim("c1", result("gpu-0"), result("gpu-1")), 1),
        (claim("c1", allocated=False), 0),
        (claim("c1", result(driver="other")), 0),
        (claim("c1", result(pool="n9")), 0),
        (claim("c1", result(pool="n1/thirds")), 1),
    ],
)
def test_claims_of_a_node_are_those_that_hold_its_devices(item: ResourceClaim, entries: int) -> None:
    at = world(node_sharings=[node_sharing()], claims=[item])
    assert [len(spec.claims) for spec in specs(decide(at, now=NOW)).values()] == [entries]


def test_another_driver_name() -> None:
    at = world(
        policies=[THIRDS], node_sharings=[node_sharing()], claims=[claim("c1", result(driver="gpu.example.com"))]
    )
    ours = replace(at, driver="gpu.example.com")
    assert [len(spec.claims) for spec in specs(decide(ours, now=NOW)).values()] == [1]


def test_ready_is_announced_when_it_changes_and_only_then() -> None:
    at = world(policies=[THIRDS])
    announced = []
    for step in ("NoMatchingNodes", "WaitingForNodes", "Ready", "Ready again"):
        intents = decide(at, now=NOW)
        announced += [
            (step, event.reason)
            for intent in intents
            if isinstance(intent, PatchStatus)
            for event in status_events(intent.before, intent.status)
        ]
        at = apply(at, intents)
        if step == "NoMatchingNodes":
            at = world(policies=at.policies.values(), node_sharings=[node_sharing()])
        else:
            at = agents_act(at)
    # Waiting is not ready either: nothing to tell.
    assert announced == [("NoMatchingNodes", "NoMatchingNodes"), ("Ready", "Ready")]


def test_the_way_of_a_policy_onto_a_node_and_off_it() -> None:
    at = settle(world(policies=[THIRDS], node_sharings=[node_sharing(gpus=2)]))
    assert readiness(at) == {"thirds": (ConditionStatus.TRUE, "Ready")}
    assert at.node_sharings["n1"].spec.gpus == (decided(0, THIRDS), decided(1, THIRDS))

    held = settle(with_claims(at, claim("c1", result("gpu-0-timeslicing"))))
    assert readiness(held) == readiness(at)
    assert [entry.uid for entry in held.node_sharings["n1"].spec.claims] == ["uid-c1"]

    changed = held.policies["thirds"].model_copy(
        update={
            "spec": policy(offers=time_slicing(5, exclusive=True)).spec,
            "metadata": policy("thirds", generation=2).metadata,
        }
    )
    waiting = with_policies(held, changed)
    waiting = apply(waiting, decide(waiting, now=NOW))
    waiting = agents_act(waiting)
    waiting = apply(waiting, decide(waiting, now=NOW))
    [message] = [item.message for item in waiting.policies["thirds"].status.conditions if item.type == "Ready"]
    assert readiness(waiting)["thirds"] == (ConditionStatus.FALSE, "WaitingForNodes")
    assert message.startswith(f"not in force on 1 of 1 node yet: n1: {uuid(0)}: in use")

    gone = replace(waiting, claims={})
    assert readiness(settle(gone))["thirds"] == (ConditionStatus.TRUE, "Ready")


@given(worlds())
def test_what_was_decided_and_written_needs_no_second_writing(at: World) -> None:
    written = apply(at, decide(at, now=NOW))
    # Classes of policies with tenants wait for the guards, and so does their status.
    written = apply(written, decide(written, now=NOW)) if written.guards != at.guards else written
    assert decide(written, now=LATER) == []


@given(worlds())
def test_operator_and_agents_come_to_rest(at: World) -> None:
    settle(at)


@given(worlds())
def test_deciding_is_a_function_of_what_is_there(at: World) -> None:
    backwards = replace(
        at,
        policies={name: at.policies[name] for name in [*at.policies][::-1]},
        nodes={name: at.nodes[name] for name in [*at.nodes][::-1]},
        node_sharings={name: at.node_sharings[name] for name in [*at.node_sharings][::-1]},
        claims={uid: at.claims[uid] for uid in [*at.claims][::-1]},
    )
    assert decide(backwards, now=NOW) == decide(at, now=NOW)


@given(worlds())
def test_a_policy_for_other_nodes_changes_nothing(at: World) -> None:
    beside = with_policies(at, policy("unrelated", priority=100, nodes={"pool": "nowhere"}))
    intents = decide(beside, now=NOW)
    about_it = [
        intent for intent in intents if isinstance(intent, PatchStatus) and intent.before.metadata.name == "unrelated"
    ]
    ours = [intent for intent in intents if intent not in about_it and not _is_class_of(intent, "unrelated")]
    assert ours == decide(at, now=NOW)


def _is_class_of(intent: Intent, name: str) -> bool:
    return isinstance(intent, Create) and str(intent.body["metadata"]["name"]).startswith(f"{name}-")


def test_gpus_that_are_not_reported_are_kept_as_far_as_there_is_room() -> None:
    many = NodeSharingSpec(gpus=tuple(decided(slot, THIRDS) for slot in range(64)))
    elsewhere = [f"GPU-n9-{slot}" for slot in range(3)]
    gpus = [gpu_status(slot, node="n9") for slot in range(3)]
    sharing = node_sharing(gpus=gpus, spec=many)
    [spec] = specs(decide(world(policies=[THIRDS], node_sharings=[sharing]), now=NOW)).values()
    assert [gpu.uuid for gpu in spec.gpus] == [*elsewhere, *(uuid(slot) for slot in range(61))]
    # What no policy had is nothing to remember.
    plain = NodeSharingSpec(gpus=(decided(7), decided(8, THIRDS).model_copy(update={"close_approved": ("gpu-8",)})))
    sharing = node_sharing(gpus=1, spec=plain)
    [spec] = specs(decide(world(node_sharings=[sharing]), now=NOW)).values()
    assert spec.gpus == (decided(0), decided(8, THIRDS))


@given(worlds(), st.lists(claims(names=["new-1", "new-2"]), max_size=2))
def test_a_claim_that_comes_never_makes_a_policy_unready(at: World, arriving: list[ResourceClaim]) -> None:
    at = settle(at)
    before = readiness(at)
    at = with_claims(at, *arriving)
    # At each step on the way: seen, written, acted on, settled.
    for step in (lambda now: apply(now, decide(now, now=LATER)), agents_act, settle):
        at = step(at)
        assert readiness(at) == before


@given(worlds())
def test_what_is_reported_is_decided_and_no_gpu_twice(at: World) -> None:
    written = apply(at, decide(at, now=NOW))
    for name in at.nodes.keys() & at.node_sharings.keys():
        sharing = written.node_sharings[name]
        reported = [gpu.uuid for gpu in sharing.status.gpus]
        before = [gpu.uuid for gpu in at.node_sharings[name].spec.gpus if gpu.policy]
        # In the order of their slots, and then those that are not reported any more.
        assert [gpu.uuid for gpu in sharing.spec.gpus] == [
            *reported,
            *(uuid for uuid in before if uuid not in reported),
        ]
        uids = [entry.uid for entry in sharing.spec.claims]
        assert uids == sorted(set(uids))


@given(worlds())
def test_counts_fit_together(at: World) -> None:
    for item in apply(at, decide(at, now=NOW)).policies.values():
        status = item.status
        if isinstance(item, UnreadablePolicy):
            # Nothing is written about it.
            assert status == SharingPolicyStatus()
            continue
        assert status.nodes
        assert status.gpus
        assert status.clients
        assert status.nodes.ready <= status.nodes.selected <= len(at.node_sharings)
        assert status.gpus.won + status.gpus.lost <= sum(len(n.status.gpus) for n in at.node_sharings.values())
        assert status.clients.max >= status.gpus.won
        assert [condition.type for condition in status.conditions] == list(ConditionType)


def big(nodes: int) -> World:
    """Eight GPUs a node, ten claims a node, three policies; agents have acted, and only statuses are to be written."""
    names = [f"node-{number:04}" for number in range(nodes)]
    at = world(
        policies=[policy("a", max_per_node=2), policy("b", max_per_node="50%", priority=-1), policy("c", priority=-2)],
        node_sharings=[node_sharing(name, gpus=8) for name in names],
        claims=[
            claim(f"claim-{name}-{number}", result(f"gpu-{number % 8}-timeslicing", pool=name))
            for name in names
            for number in range(10)
        ],
    )
    written = apply(at, decide(at, now=NOW))
    status = {name: in_force(sharing) for name, sharing in written.node_sharings.items()}
    return replace(written, node_sharings=status)


def in_force(sharing: NodeSharing) -> NodeSharing:
    decisions = {gpu.uuid: gpu.policy for gpu in sharing.spec.gpus}
    gpus = tuple(gpu.model_copy(update={"policy": decisions[gpu.uuid]}) for gpu in sharing.status.gpus)
    return sharing.model_copy(update={"status": sharing.status.model_copy(update={"gpus": gpus})})


def fastest(at: World, *, of: int) -> float:
    def once() -> float:
        begin = time.process_time()
        assert [type(intent) for intent in decide(at, now=NOW)] == [PatchStatus] * 3
        return time.process_time() - begin

    gc.collect()
    gc.disable()  # What other tests left behind is not the decision's cost.
    try:
        return min(once() for _ in range(of))
    finally:
        gc.enable()


@pytest.mark.slow
def test_the_time_of_a_decision_grows_with_the_cluster_and_not_faster() -> None:
    small, large = fastest(big(100), of=3), fastest(big(1_000), of=2)
    print(f"decide: 100 nodes {small * 1e3:.0f} ms, 1,000 nodes x 8 GPUs and 10,000 claims {large * 1e3:.0f} ms")
    assert large < 15 * small
