"""Rollouts from beginning to end: the operator decides, pods are evicted, and agents act, some sooner, some later."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import (
    EXCLUSIVE,
    LATER,
    NOW,
    claim,
    gpu_status,
    node_sharing,
    policy,
    reference,
    result,
    time_slicing,
    world,
)
from building.cluster import agents_act, apply, pods_are_evicted, with_policies
from building.from_nothing import World, decide
from gpusharing.api.meta import Condition, ConditionStatus, key_of
from gpusharing.api.sharing.gpu_models import GpuModel
from gpusharing.api.sharing.gpu_status import MigMode, PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.offers import MigOffer, Offers
from gpusharing.api.sharing.policy_status import LagReason, SharingPolicyStatus
from gpusharing.api.sharing.rollout import Disruption, Rollout, RolloutMode
from gpusharing.core.intents import PatchStatus

NODES = [f"n{number:02}" for number in range(20)]
Act = Callable[[World], World]


def fleet(rollout: Rollout) -> World:
    """Shares on twenty nodes, on each of which one is held; now they are to be whole."""
    old = policy("a", offers=time_slicing(4))
    at = world(policies=[old], node_sharings=[node_sharing(name, gpus=2) for name in NODES])
    for _ in range(2):
        at = agents_act(decided(at))
    holders = [claim(f"c-{name}", result("gpu-0-timeslicing", pool=name)) for name in NODES]
    at = agents_act(decided(replace(at, claims={key_of(holder): holder for holder in holders})))
    return edited(at, rollout)


def edited(at: World, rollout: Rollout, *, generation: int = 2) -> World:
    wanted = policy("a", generation=generation, offers=EXCLUSIVE, rollout=rollout)
    return with_policies(at, wanted.model_copy(update={"status": at.policies["a"].status}))


def decided(at: World) -> World:
    return apply(at, decide(at, now=NOW))


def only(names: Collection[str], act: Act) -> Act:
    """Something that happens on these nodes alone."""

    def acted(at: World) -> World:
        after = act(at)
        sharings = {name: (after if name in names else at).node_sharings[name] for name in at.node_sharings}
        gone = {key for key in at.claims if key not in after.claims and key[1].removeprefix("c-") in names}
        return replace(at, node_sharings=sharings, claims={k: c for k, c in at.claims.items() if k not in gone})

    return acted


def breaks(at: World, names: Iterable[str]) -> World:
    """What these nodes were told cannot be had there."""
    return replace(at, node_sharings={**at.node_sharings, **{name: broken(at.node_sharings[name]) for name in names}})


def broken(sharing: NodeSharing) -> NodeSharing:
    wrong = Condition(
        type="Healthy",
        status=ConditionStatus.TRUE,
        reason="SettingNotApplied",
        message="it does not",
        last_transition_time=NOW,
    )
    gpus = tuple(gpu.model_copy(update={"conditions": (wrong,)}) for gpu in sharing.status.gpus)
    return sharing.model_copy(update={"status": sharing.status.model_copy(update={"gpus": gpus})})


def begun(at: World) -> list[str]:
    """Nodes that have the new spec."""
    return [
        name
        for name, sharing in at.node_sharings.items()
        if all(gpu.policy and gpu.policy.generation == 2 for gpu in sharing.spec.gpus)
    ]


def evicting(at: World) -> list[str]:
    return [name for name, sharing in at.node_sharings.items() if any(gpu.drain for gpu in sharing.spec.gpus)]


def status(at: World) -> SharingPolicyStatus:
    return at.policies["a"].status


def condition(at: World, type_: str) -> tuple[str, str, str]:
    [found] = [one for one in status(at).conditions if one.type == type_]
    return found.status, found.reason, found.message


def last_ready(at: World) -> int | None:
    found = status(at).last_ready
    return found.generation if found else None


THREE = Rollout(disruption=Disruption.EVICT, max_unavailable=3)


def test_three_nodes_at_a_time_in_the_order_of_their_names() -> None:
    at = decided(fleet(THREE))
    assert begun(at) == evicting(at) == NODES[:3]
    assert condition(at, "Progressing") == ("True", "RollingOut", "changing 3 nodes, 17 more to follow")
    assert [(late.node, late.reason) for late in status(at).lagging][:4] == [
        ("n00", LagReason.WAITING_FOR_AGENT),
        ("n01", LagReason.WAITING_FOR_AGENT),
        ("n02", LagReason.WAITING_FOR_AGENT),
        ("n03", LagReason.HELD_BACK),
    ]
    # Until one of them is through, nothing more happens, whoever looks.
    assert decide(at, now=NOW) == []
    at = decided(agents_act(at))
    assert status(at).lagging[0].reason is LagReason.EVICTING
    at = only({"n01"}, lambda at: agents_act(pods_are_evicted(at)))(at)
    at = decided(at)
    assert evicting(at) == ["n00", "n02", "n03"]
    assert begun(at) == NODES[:4]
    rounds = 0
    while evicting(at):
        assert len(evicting(at)) <= 3
        at = decided(agents_act(pods_are_evicted(at)))
        rounds += 1
    assert rounds <= 7
    assert begun(at) == NODES
    assert condition(at, "Progressing") == ("False", "Complete", "")
    assert condition(at, "Ready") == ("True", "Ready", "in force on 40 GPUs of 20 nodes")
    assert last_ready(at) == 2
    found = status(at).last_ready
    assert found is not None
    rollout = {"disruption": "Evict", "maxUnavailable": 3}
    assert found.spec == {"offers": {"exclusive": {}}, "classes": {"create": False}, "rollout": rollout}
    assert at.claims == {}


def test_a_node_that_fails_stops_the_rollout_and_a_correction_mends_it() -> None:
    at = decided(fleet(Rollout(disruption=Disruption.EVICT, max_unavailable=1)))
    assert begun(at) == ["n00"]
    at = breaks(pods_are_evicted(at), ["n00"])
    for _ in range(3):
        at = decided(at)
    assert begun(at) == ["n00"]
    told = "GPU-n00-0 of n00: it does not; GPU-n00-1 of n00: it does not"
    why = "failing nodes use up rollout.maxUnavailable, 19 nodes held back"
    advice = "Repair the failing nodes, remove them from spec.nodes, correct the policy, or raise maxUnavailable"
    stopped = f"rollout stopped: {why}. {advice}. Failing: {told}"
    assert condition(at, "Progressing") == ("False", "Stopped", stopped)
    assert condition(at, "Degraded") == ("True", "NodesFailing", f"1 node failing: {told}")
    counts = status(at).nodes
    assert counts is not None
    assert (counts.selected, counts.ready, counts.held_back, counts.failing) == (20, 0, 19, 1)
    assert status(at).lagging[0].reason is LagReason.FAILING
    # The others are as they were, and what was last in force can be looked up.
    assert all(gpu.offers == time_slicing(4) for name in NODES[1:] for gpu in at.node_sharings[name].spec.gpus)
    assert last_ready(at) == 1
    # Back to it: the node that has begun gets it at once, although it fails.
    back = policy("a", generation=3, offers=time_slicing(4))
    at = decided(with_policies(at, back.model_copy(update={"status": status(at)})))
    assert all(gpu.offers == time_slicing(4) for name in NODES for gpu in at.node_sharings[name].spec.gpus)


EXISTS = {"operator": "Exists"}
DRAINING = "gpusharing.dev/draining"


@pytest.mark.parametrize(
    ("toleration", "stays"),
    [
        (EXISTS, True),
        (EXISTS | {"effect": "NoExecute"}, True),
        (EXISTS | {"key": DRAINING}, True),
        ({"key": DRAINING}, True),
        (EXISTS | {"tolerationSeconds": 3600}, False),
        (EXISTS | {"effect": "NoSchedule"}, False),
        (EXISTS | {"key": "example.com/other"}, False),
        ({"key": DRAINING, "value": "x"}, False),
    ],
    ids=str,
)
def test_who_is_not_evicted_is_named_until_he_has_gone(toleration: Mapping[str, Any], *, stays: bool) -> None:
    at = fleet(THREE)
    claims = [
        claim(f"c-{name}", result("gpu-0-timeslicing", pool=name, tolerations=[toleration])) for name in ("n00", "n01")
    ]
    at = decided(replace(at, claims={**at.claims, **{key_of(one): one for one in claims}}))
    well = ("False", "NotDegraded", "")
    message = (
        "claims tolerate taint gpusharing.dev/draining indefinitely, so Kubernetes does not evict their pods; "
        "delete the pods of "
        "claim default/c-n00 on gpu-0-timeslicing of n00, claim default/c-n01 on gpu-0-timeslicing of n01"
    )
    assert condition(at, "Degraded") == (("True", "EvictionTolerated", message) if stays else well)
    # Those who are not to be evicted may tolerate what they like.
    waiting = decided(edited(at, Rollout(), generation=3))
    assert condition(waiting, "Degraded") == well
    gone = decided(agents_act(decided(pods_are_evicted(agents_act(at)))))
    assert condition(gone, "Degraded") == well


def test_what_fails_takes_up_one_place_of_several() -> None:
    at = decided(fleet(THREE))
    at = breaks(at, ["n01"])
    for _ in range(40):
        at = decided(only(set(NODES) - {"n01"}, lambda at: agents_act(pods_are_evicted(at)))(at))
        assert len(evicting(at)) <= 3
    assert begun(at) == NODES
    assert condition(at, "Progressing")[1] == "Waiting"
    assert condition(at, "Ready")[2].startswith("not in force on 1 of 20 nodes yet: n01: GPU-n01-0: it does not")


def test_those_who_wait_for_idle_gpus_hold_nobody_up() -> None:
    at = decided(fleet(Rollout()))
    assert begun(at) == NODES
    assert evicting(at) == []
    assert condition(at, "Progressing")[:2] == ("True", "Waiting")
    assert len(status(at).lagging) == 10
    at = decided(agents_act(at))
    assert {late.reason for late in status(at).lagging} == {LagReason.IN_USE}
    assert len(at.claims) == 20


def test_a_node_that_is_not_ready_is_named_as_such() -> None:
    at = decided(fleet(Rollout(disruption=Disruption.EVICT, max_unavailable=1)))
    before = status(at).lagging[0]
    assert (before.node, before.reason) == ("n00", LagReason.WAITING_FOR_AGENT)
    dead = decided(replace(at, nodes={**at.nodes, "n00": replace(at.nodes["n00"], not_ready_since=NOW)}))
    first = status(dead).lagging[0]
    assert (first.node, first.reason) == ("n00", LagReason.NODE_NOT_READY)
    assert NOW in first.message
    # It goes on counting as one that is changed, and the others wait for it.
    assert begun(dead) == ["n00"]
    assert status(decided(replace(dead, nodes=at.nodes))).lagging[0] == before


def test_never_leaves_gpus_in_use_as_they_were_until_they_are_idle() -> None:
    at = decided(fleet(Rollout(disruption=Disruption.NEVER)))
    for name in NODES:
        in_use, idle = at.node_sharings[name].spec.gpus
        assert in_use.offers == time_slicing(4)
        assert idle.offers == EXCLUSIVE
    assert {late.reason for late in status(at).lagging} == {LagReason.UNCHANGED_UNTIL_IDLE}
    assert condition(at, "Ready")[:2] == ("False", "WaitingForNodes")
    left = replace(at, claims={key: one for key, one in at.claims.items() if key[1] != "c-n07"})
    left = decided(agents_act(decided(left)))
    assert begun(left) == ["n07"]


def test_paused_and_planned_change_nothing_and_a_plan_tells_what_would() -> None:
    before = fleet(Rollout())
    for rollout in (Rollout(paused=True), Rollout(mode=RolloutMode.PLAN), Rollout(mode=RolloutMode.PLAN, paused=True)):
        at = edited(before, rollout)
        assert [type(intent) for intent in decide(at, now=NOW)] == [PatchStatus]
    evict = Rollout(disruption=Disruption.EVICT, mode=RolloutMode.PLAN)
    at = decided(edited(before, evict))
    plan = status(at).plan
    assert plan is not None
    assert plan.totals.to_json() == {"nodes": 20, "gpus": 40, "claims": 20, "evicted": 20, "repartitioned": 0}
    assert plan.nodes[0].to_json() == {
        "node": "n00",
        "gpus": [
            {"uuid": "GPU-n00-0", "from": "a", "to": "a", "effect": "Evicts", "claims": ["default/c-n00"]},
            {"uuid": "GPU-n00-1", "from": "a", "to": "a", "effect": "None", "claims": []},
        ],
    }
    would = "40 GPUs on 20 nodes would change; set rollout.mode to Apply to roll this out"
    assert condition(at, "Progressing") == ("False", "Plan", would)
    assert condition(at, "Ready") == ("False", "Plan", would)
    # What it said comes true.
    applied = decided(edited(at, evict.model_copy(update={"mode": RolloutMode.APPLY})))
    assert evicting(applied) == NODES[:1]
    assert status(applied).plan is None


def test_a_plan_in_which_nothing_changes_is_ready() -> None:
    at = decided(fleet(Rollout()))
    for _ in range(3):
        at = decided(agents_act(replace(at, claims={})))
    at = decided(edited(at, Rollout(mode=RolloutMode.PLAN), generation=3))
    assert condition(at, "Ready")[:2] == ("True", "Ready")
    assert condition(at, "Progressing") == ("False", "Plan", "nothing would change")
    assert begun(at) == NODES


def test_pausing_half_way_leaves_each_node_as_it_is() -> None:
    at = decided(fleet(THREE))
    at = edited(at, THREE.model_copy(update={"paused": True}), generation=3)
    for _ in range(3):
        at = decided(agents_act(pods_are_evicted(at)))
    assert begun(at) == NODES[:3]
    assert evicting(at) == []
    assert condition(at, "Progressing")[1] == "Paused"
    assert len(at.claims) == 17


@given(st.data(), st.integers(1, 4), st.sampled_from(["1%", "10%", "25%"]) | st.integers(1, 4))
def test_never_more_than_are_allowed_whatever_happens_first(data: st.DataObject, steps: int, most: int | str) -> None:
    """The operator may be a new one at each step: nothing is remembered."""
    allowed = most if isinstance(most, int) else max(1, 20 * int(most[:-1]) // 100)
    at = fleet(Rollout(disruption=Disruption.EVICT, max_unavailable=most))
    evicted = 0
    for _ in range(3 * steps):
        at = decided(at)
        assert len(evicting(at)) <= allowed
        names = data.draw(st.sets(st.sampled_from(NODES)))
        happens = data.draw(st.sampled_from([pods_are_evicted, agents_act]))
        before = len(at.claims)
        at = only(names, happens)(at)
        evicted += before - len(at.claims)
    assert evicted == 20 - len(at.claims)
    # In the end all are through. Once a round changes nothing, no later one does.
    for _ in range(60):
        before_round, at = at, decided(agents_act(pods_are_evicted(at)))
        if at == before_round:
            break
    assert begun(at) == NODES
    assert decide(at, now=NOW) == []


CUT = policy("a", offers=Offers(mig=MigOffer(profiles=("1g.10gb",))), rollout=Rollout(max_unavailable=1))


def ampere(name: str, *published: str, since: str | None = None, cut: bool = False) -> NodeSharing:
    """A node of which the GPU has to be reset before it can be cut."""
    status = gpu_status(0, node=name).model_copy(
        update={
            "mig_profiles": ("1g.10gb",),
            "mig_mode": MigMode(enabled=cut, found=False),
            "pool": name,
            "published": tuple(PublishedDevice(device=device, closing_since=since) for device in published),
            "policy": reference(CUT) if cut else None,
        }
    )
    sharing = node_sharing(name, gpus=[status])
    models = (GpuModel(model=status.model, switch_resets=True, profiles=()),)
    return sharing.model_copy(update={"status": sharing.status.model_copy(update={"models": models})})


def reports(at: World, sharing: NodeSharing) -> World:
    before = at.node_sharings[sharing.metadata.name]
    return replace(
        at,
        node_sharings={**at.node_sharings, before.metadata.name: before.model_copy(update={"status": sharing.status})},
    )


def withdrawing(at: World) -> list[str]:
    return [name for name, one in at.node_sharings.items() if any(gpu.close_approved for gpu in one.spec.gpus)]


def changing(at: World) -> int | None:
    nodes = status(at).nodes
    return nodes.changing if nodes else None


def test_all_nodes_close_idle_gpus_at_once_and_only_as_many_as_are_allowed_are_reset() -> None:
    names = ["n1", "n2", "n3"]
    at = world(policies=[CUT], node_sharings=[ampere(name, "gpu-0") for name in names])
    at = decided(at)
    assert [gpu.offers for one in at.node_sharings.values() for gpu in one.spec.gpus] == [CUT.spec.offers] * 3
    for name in names:
        at = reports(at, ampere(name, "gpu-0", since=NOW))
    at = apply(at, decide(at, now=NOW))
    assert withdrawing(at) == []
    # Nobody is disturbed yet, so nobody takes a place.
    assert changing(at) == 0
    at = apply(at, decide(at, now=LATER))
    assert withdrawing(at) == ["n1"]
    # While it is reset, the others wait; then it is the next one's turn.
    at = reports(at, ampere("n1"))
    at = apply(at, decide(at, now=LATER))
    assert changing(at) == 1
    assert withdrawing(at) == []
    assert {late.node: late.reason for late in status(at).lagging} == {
        "n1": LagReason.WAITING_FOR_AGENT,
        "n2": LagReason.HELD_BACK,
        "n3": LagReason.HELD_BACK,
    }
    at = reports(at, ampere("n1", "gpu-0-mig-1g10gb-19-0", cut=True))
    at = apply(at, decide(at, now=LATER))
    assert withdrawing(at) == ["n2"]
