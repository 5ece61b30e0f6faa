"""Incremental up to date, the decision is the one that is made from nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    class_of,
    decided,
    gpu_status,
    guards,
    node,
    node_sharing,
    policy,
    result,
    taint_rule,
    time_slicing,
    world,
)
from building.cluster import agents_act, apply, with_claims, with_policies
from building.from_nothing import World, decide, events
from building.guards import bound, installed
from building.incremental import Incremental, by_object, fold
from building.worlds import (
    FEW,
    NODES,
    POLICIES,
    TEAM_X,
    TEAM_Y,
    claims,
    installations,
    node_sharings,
    policies,
    templates,
    tenants,
    was_ready,
    worlds,
)
from gpusharing.api.dra import DeviceTaintRule, Namespace, ResourceClaim
from gpusharing.api.meta import Condition, ConditionStatus, LabelSelector, NamespaceMeta, key_of
from gpusharing.api.sharing.gpu_status import PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import IDLE_WAIT, ClaimSharing, NodeSharingSpec, Verdict
from gpusharing.api.sharing.node_status import ClaimStatus
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.policy import UnreadablePolicy
from gpusharing.api.sharing.policy_status import LagReason, SharingPolicyStatus
from gpusharing.api.sharing.rollout import Disruption, Rollout, RolloutMode
from gpusharing.api.sharing.tenants import Tenants
from gpusharing.api.templates import ResourceClaimTemplate
from gpusharing.core.cluster.guards.upkeep import Bindings, Guards
from gpusharing.core.decision import incremental as module
from gpusharing.core.decision import node_decision, waiting
from gpusharing.core.decision.node_decision import decide_node
from gpusharing.core.intents import Intent, PatchStatus, ReplaceSpec
from gpusharing.core.policies import assignment, resolution
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.core.reasons import DegradedReason
from gpusharing.core.state.node_view import NodeView
from gpusharing.core.timestamps import seconds

Step = Callable[[World], World]

MOMENTS = (NOW, "2026-11-18T12:00:01Z", "2026-11-18T12:30:00Z", LATER, "2026-11-18T14:00:00Z")


# Some of them closing, for longer than the operator waits or not.
published = st.lists(
    st.builds(
        PublishedDevice,
        device=st.sampled_from(["gpu-0", "gpu-0-timeslicing", "gpu-1-timeslicing"]),
        closing_since=st.sampled_from([None, None, "2026-11-18T11:00:00Z", NOW]),
    ),
    max_size=2,
    unique_by=lambda item: item.device,
).map(tuple)


def without(field: str, name: object) -> Step:
    def drop(at: World) -> World:
        rest: Any = {field: {key: item for key, item in getattr(at, field).items() if key != name}}
        return replace(at, **rest)

    return drop


def with_sharing(name: str, seed: st.DataObject) -> Step:
    def put(at: World) -> World:
        sharing = seed.draw(node_sharings(name, list(at.policies.values())))
        gpus = tuple(gpu.model_copy(update={"published": seed.draw(published)}) for gpu in sharing.status.gpus)
        sharing = sharing.model_copy(update={"status": sharing.status.model_copy(update={"gpus": gpus})})
        return replace(at, node_sharings={**at.node_sharings, name: sharing})

    return put


def with_node(name: str, labels: Mapping[str, str]) -> Step:
    return lambda at: replace(at, nodes={**at.nodes, name: node(name, **labels)})


def with_readiness(name: str, not_ready_since: str | None) -> Step:
    return lambda at: (
        replace(at, nodes={**at.nodes, name: replace(at.nodes[name], not_ready_since=not_ready_since)})
        if name in at.nodes
        else at
    )


def with_namespace(name: str, labels: Mapping[str, str] | None) -> Step:
    namespace = Namespace(metadata=NamespaceMeta(name=name, labels=None if labels is None else dict(labels)))
    return lambda at: replace(at, namespaces={**at.namespaces, name: namespace})


def with_taint_rule(rule: DeviceTaintRule) -> Step:
    return lambda at: (
        at if at.taint_rules is None else replace(at, taint_rules={**at.taint_rules, rule.metadata.name: rule})
    )


def with_installation(installed: Guards, bindings: Bindings) -> Step:
    return lambda at: replace(at, guards=installed, bindings=bindings)


def with_seen(data: st.DataObject) -> Step:
    """Some entries of the guards, also former ones."""

    def put(at: World) -> World:
        known = {name: sorted(entries) for name, entries in replace(at, entries=None).seen_entries.items()}
        former = {name: sorted(entries) for name, entries in at.seen_entries.items()}
        seen = {
            name: frozenset(data.draw(st.sets(st.sampled_from(known[name] + former.get(name, [])))))
            for name in known
            if known[name]
        }
        return replace(at, entries=data.draw(st.sampled_from([seen, {}, None])))

    return put


def with_template(template: ResourceClaimTemplate) -> Step:
    return lambda at: replace(at, templates={**at.templates, key_of(template): template})


def with_last_ready(data: st.DataObject) -> Step:
    """Another operator led for a while."""

    def put(at: World) -> World:
        changed = [
            item.model_copy(update={"status": was_ready(data.draw(st.none() | tenants))})
            for item in at.policies.values()
            if not isinstance(item, UnreadablePolicy)
        ]
        return with_policies(at, *changed)

    return put


def step(data: st.DataObject) -> Step:
    name = st.sampled_from(NODES)
    steps: list[Callable[[], Step]] = [
        lambda: lambda at: with_policies(at, data.draw(policies)),
        lambda: without("policies", data.draw(st.sampled_from(POLICIES))),
        lambda: with_sharing(data.draw(name), data),
        lambda: without("node_sharings", data.draw(name)),
        lambda: with_node(data.draw(name), data.draw(st.sampled_from([{}, {"pool": "x"}]))),
        lambda: with_readiness(data.draw(name), data.draw(st.sampled_from([None, NOW]))),
        lambda: without("nodes", data.draw(name)),
        lambda: lambda at: with_claims(at, data.draw(claims())),
        lambda: without("claims", data.draw(st.sampled_from([("team", "c1"), ("default", "c2")]))),
        lambda: agents_act,
        lambda: lambda at: apply(at, decide(at, now=NOW)),
        lambda: with_namespace("team", data.draw(st.sampled_from([{"team": "x"}, {"team": "y"}, {}, None]))),
        lambda: with_last_ready(data),
        lambda: with_installation(*data.draw(installations)),
        lambda: with_template(data.draw(templates)),
        lambda: without("templates", ("team", f"{data.draw(st.sampled_from(POLICIES))}-timeslicing")),
        lambda: with_seen(data),
        lambda: without("namespaces", data.draw(st.sampled_from(["team", "default"]))),
        lambda: with_taint_rule(taint_rule(data.draw(st.sampled_from(["gpu-0", "gpu-0-timeslicing"])))),
    ]
    return data.draw(st.sampled_from(steps))()


@given(worlds(), st.data())
def test_after_any_history_it_is_what_is_decided_from_nothing(at: World, data: st.DataObject) -> None:
    kept = Incremental(at)
    for now in MOMENTS:
        assert kept.decide(now=now) == decide(kept.world, now=now)
        assert by_object(kept.decider.waiting_events) == by_object(events(kept.world, now=now))
        for _ in range(data.draw(st.integers(0, 3))):
            kept.become(step(data)(kept.world))


@given(worlds(), st.data())
def test_after_any_history_figures_are_those_of_a_new_leader(at: World, data: st.DataObject) -> None:
    kept = Incremental(at)
    for now in MOMENTS:
        kept.decide(now=now)
        new = Incremental(kept.world)
        new.decide(now=now)
        assert kept.decider.figures == new.decider.figures
        for _ in range(data.draw(st.integers(0, 3))):
            kept.become(step(data)(kept.world))


@given(worlds())
def test_nothing_is_decided_again_when_nothing_has_changed(at: World) -> None:
    kept = Incremental(at)
    for _ in range(3):
        kept.become(agents_act(apply(kept.world, kept.decide(now=NOW))))
    assert kept.decide(now=NOW) == []
    assert decisions_on_nodes(lambda: kept.decide(now=NOW)) == []


def decisions_on_nodes(of: Callable[[], object]) -> list[str]:
    """The nodes that were decided on meanwhile."""
    seen: list[str] = []

    def noted(policies: Any, view: NodeView, *rest: Any, **named: Any) -> Any:
        seen.append(view.name)
        return decide_node(policies, view, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "decide_node", noted)
        of()
    return seen


def settled() -> Incremental:
    kept = Incremental(
        world(
            policies=[policy("everywhere"), policy("here", nodes={"pool": "x"}, priority=1)],
            nodes=[node("n3", pool="x")],
            node_sharings=[node_sharing(name) for name in NODES],
        )
    )
    for _ in range(3):
        kept.become(agents_act(apply(kept.world, kept.decide(now=NOW))))
    assert kept.decide(now=NOW) == []
    return kept


def write(kept: Incremental, intents: Iterable[Intent]) -> None:
    """What was decided of nodes, unless they have changed since. It comes back as other objects that say the same."""
    for intent in intents:
        if isinstance(intent, ReplaceSpec):
            before, name = intent.before, intent.before.metadata.name
            if kept.world.node_sharings[name] is before:
                written = before.model_copy(update={"spec": intent.spec.model_copy(deep=True)})
                kept.become(replace(kept.world, node_sharings={**kept.world.node_sharings, name: written}))


def of_age(number: int) -> ResourceClaim:
    """The lower the older, each on a node of its own."""
    made_at = f"2026-11-18T12:0{number}:00Z"
    return claim(f"c{number}", result(pool=f"n{number}/a"), namespace="team", made_at=made_at)


def test_quotas_count_on_all_nodes() -> None:
    at = world(
        policies=[policy("a", tenants=FEW, offers=EXCLUSIVE)],
        node_sharings=[node_sharing(name) for name in NODES],
        namespaces={"team": {"team": "x"}},
    )
    kept = Incremental(replace(at, guards=installed(), bindings=bound()))
    claims_ = [
        claim(f"c{n}", result(pool=f"n{n}/a"), namespace="team", made_at=f"2026-11-18T12:0{n}:00Z") for n in (1, 2, 3)
    ]

    def verdicts() -> dict[str, Verdict]:
        intents = kept.decide(now=NOW)
        assert intents == decide(kept.world, now=NOW)
        specs = {name: sharing.spec for name, sharing in kept.world.node_sharings.items()}
        specs |= {one.before.metadata.name: one.spec for one in intents if isinstance(one, ReplaceSpec)}
        return {entry.claim.removeprefix("team/"): entry.verdict for spec in specs.values() for entry in spec.claims}

    yes, no = Verdict.ALLOWED, Verdict.DENIED
    kept.become(with_claims(kept.world, *claims_[1:]))
    assert verdicts() == {"c2": yes, "c3": no}
    # Before that is written, an older one comes.
    kept.become(with_claims(kept.world, claims_[0]))
    assert verdicts() == {"c1": yes, "c2": no, "c3": no}
    write(kept, kept.decide(now=NOW))
    assert verdicts() == {"c1": yes, "c2": no, "c3": no}
    # Somebody else has allowed the youngest meanwhile: it stays, and the first does.
    n3 = kept.world.node_sharings["n3"]
    allowed = tuple(one.model_copy(update={"verdict": yes, "reason": None}) for one in n3.spec.claims)
    n3 = n3.model_copy(update={"spec": n3.spec.model_copy(update={"claims": allowed})})
    kept.become(replace(kept.world, node_sharings={**kept.world.node_sharings, "n3": n3}))
    assert verdicts() == {"c1": yes, "c2": no, "c3": yes}
    kept.become(without("claims", ("team", "c1"))(kept.world))
    assert verdicts() == {"c2": no, "c3": yes}
    kept.become(without("claims", ("team", "c3"))(kept.world))
    assert verdicts() == {"c2": yes}


@pytest.mark.parametrize("written", [True, False])
def test_a_verdict_on_another_node_changes_who_is_beyond_a_quota(written: bool) -> None:
    """With two that nothing was said of, the older one is first; unless the younger one was allowed."""
    at = world(
        policies=[policy("a", tenants=FEW, offers=EXCLUSIVE)],
        node_sharings=[node_sharing(name) for name in NODES],
        namespaces={"team": {"team": "x"}},
        claims=[of_age(1), of_age(2)],
    )
    kept = Incremental(replace(at, guards=installed(), bindings=bound()))
    kept.decide(now=NOW)
    n2 = kept.world.node_sharings["n2"]
    if written:
        entry = ClaimSharing(uid="uid-c2", claim="team/c2", allocation_hash="", verdict=Verdict.ALLOWED)
        n2 = n2.model_copy(update={"spec": n2.spec.model_copy(update={"claims": (entry,)})})
    else:
        reported = n2.status.model_copy(update={"claims": (ClaimStatus(uid="uid-c2", claim="team/c2"),)})
        n2 = n2.model_copy(update={"status": reported})
    kept.become(replace(kept.world, node_sharings={**kept.world.node_sharings, "n2": n2}))
    intents = kept.decide(now=NOW)
    assert intents == decide(kept.world, now=NOW)
    denied = [
        entry.claim
        for one in intents
        if isinstance(one, ReplaceSpec)
        for entry in one.spec.claims
        if entry.verdict is Verdict.DENIED
    ]
    assert denied == ["team/c1"]


HELD = claim("c1", result("gpu-0-timeslicing", pool="n2"))


def test_what_was_decided_stays_decided_when_it_comes_back() -> None:
    kept = settled()
    for change in (lambda at: with_claims(at, HELD), without("claims", ("default", "c1"))):
        kept.become(change(kept.world))
        assert decisions_on_nodes(lambda: kept.decide(now=NOW)) == ["n2"]
        write(kept, kept.decide(now=NOW))
        assert kept.decider.state.has_changed
        assert kept.decide(now=NOW) == decide(kept.world, now=NOW)
        assert not any(isinstance(intent, ReplaceSpec) for intent in kept.decide(now=NOW))


def _with_status(at: NodeSharing) -> NodeSharing:
    gpu, *others = at.status.gpus
    gpus = (gpu.model_copy(update={"memory": "48Gi"}), *others)
    return at.model_copy(update={"status": at.status.model_copy(update={"gpus": gpus})})


def _with_spec(at: NodeSharing) -> NodeSharing:
    return at.model_copy(update={"spec": at.spec.model_copy(update={"claims": ()})})


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda at: replace(at, node_sharings={**at.node_sharings, "n2": _with_status(at.node_sharings["n2"])}),
        lambda at: replace(at, node_sharings={**at.node_sharings, "n2": _with_spec(at.node_sharings["n2"])}),
        lambda at: with_claims(at, claim("c2", result("gpu-1-timeslicing", pool="n2"))),
        lambda at: with_claims(at, claim("c1", result("gpu-1-timeslicing", pool="n2"))),
        without("claims", ("default", "c1")),
        with_node("n2", {"pool": "x"}),
        with_namespace("default", {"team": "x"}),
        with_taint_rule(taint_rule("gpu-0-timeslicing", pool="n2")),
        lambda at: with_policies(at, policy("everywhere", generation=2, offers=time_slicing(7))),
    ],
    ids=["status", "spec", "claim", "allocation", "release", "labels", "namespace", "rule", "policy"],
)
@pytest.mark.parametrize("first", ["write", "change"])
def test_what_others_did_meanwhile_is_decided_on(meanwhile: Step, first: str) -> None:
    """Whether it comes before the answer to our write or after it."""
    kept = settled()
    kept.become(with_claims(kept.world, HELD))
    decided = kept.decide(now=NOW)
    if first == "write":
        write(kept, decided)
        kept.become(meanwhile(kept.world))
    else:
        kept.become(meanwhile(kept.world))
        write(kept, decided)
    assert "n2" in decisions_on_nodes(lambda: kept.decide(now=NOW))
    assert kept.decide(now=NOW) == decide(kept.world, now=NOW)


def test_a_claim_that_was_denied_is_decided_on_again() -> None:
    """What was allowed before is not promised any more, so that there may be more to say."""
    kept = settled()
    early = claim("early", result("gpu-0", pool="n2"))
    kept.become(with_claims(kept.world, early, claim("late", result("gpu-0-timeslicing", pool="n2"))))
    write(kept, kept.decide(now=NOW))
    assert decisions_on_nodes(lambda: kept.decide(now=NOW)) == ["n2"]
    assert kept.decide(now=NOW) == decide(kept.world, now=NOW)


EDITED = policy("here", nodes={"pool": "x"}, priority=1, generation=2, offers=time_slicing(7))


def test_a_node_whose_gpus_are_given_in_another_way_is_decided_on_again() -> None:
    """What has begun there is no longer what has to wait for its turn."""
    kept = settled()
    kept.become(with_policies(kept.world, EDITED))
    write(kept, kept.decide(now=NOW))
    assert decisions_on_nodes(lambda: kept.decide(now=NOW)) == ["n3"]
    assert kept.decide(now=NOW) == decide(kept.world, now=NOW)


@pytest.mark.parametrize(
    ("change", "decided"),
    [
        (lambda at: at, []),
        (lambda at: with_claims(at, claim("c1", result("gpu-0-timeslicing", pool="n2"))), ["n2"]),
        (lambda at: with_claims(at, claim("c1", allocated=False)), []),
        (lambda at: with_claims(at, claim("c1", result(driver="other"))), []),
        (lambda at: with_claims(at, claim("c1", result(pool="n1"), result(pool="n3/here"))), ["n1", "n3"]),
        (lambda at: with_policies(at, EDITED), ["n3"]),
        (without("policies", "here"), ["n3"]),
        (lambda at: with_policies(at, policy("new", nodes={"pool": "y"})), []),
        (with_node("n1", {}), []),
        (with_node("n1", {"pool": "x"}), ["n1"]),
        (without("nodes", "n1"), []),
    ],
)
def test_a_change_costs_the_nodes_that_it_concerns(change: Step, decided: list[str]) -> None:
    kept = settled()
    kept.become(change(kept.world))
    assert decisions_on_nodes(lambda: kept.decide(now=NOW)) == decided
    # And those that were spared are as they would be decided on.
    assert kept.decide(now=NOW) == decide(kept.world, now=NOW)


def test_what_agents_say_in_a_claim_is_no_change() -> None:
    kept = settled()
    held = claim("c1", result("gpu-0-timeslicing"))
    kept.become(with_claims(kept.world, held))
    kept.decide(now=NOW)
    told = replace(
        held,
        metadata=replace(held.metadata, resource_version="2"),
        status=replace(held.status, devices=({"driver": "other"},)),
    )
    kept.become(with_claims(kept.world, told))
    assert not kept.decider.state.has_changed


def test_a_status_of_ours_concerns_no_node() -> None:
    kept = Incremental(world(policies=[policy()], node_sharings=[node_sharing()]))
    statuses = [intent for intent in kept.decide(now=NOW) if isinstance(intent, PatchStatus)]
    kept.become(apply(kept.world, statuses))
    assert decisions_on_nodes(lambda: kept.decide(now=NOW)) == []


def test_a_pod_may_be_told_again_when_one_of_its_claims_waits_no_longer() -> None:
    """What it was told is forgotten with that claim, and the other one waits still."""
    waits = claim("c1", allocated=False, classes=("a-timeslicing",), made_for="p1")
    other = claim("c2", allocated=False, classes=("a-timeslicing",), made_for="p1")
    nowhere = policy("a", nodes={"pool": "y"}, offers=time_slicing(4))
    kept = Incremental(with_claims(world(policies=[nowhere], classes=[class_of("a")]), waits, other))
    kept.become(with_claims(kept.world, claim("c2", allocated=False, made_for="p1")))
    assert kept.decide(now=NOW) == decide(kept.world, now=NOW)


def test_time_alone_is_looked_at_when_its_moment_has_come() -> None:
    closing = PublishedDevice(device="gpu-0-timeslicing", closing_since=NOW)
    withdrawing = gpu_status(0, node="n2").model_copy(update={"published": (closing,)})
    kept = Incremental(world(node_sharings=[node_sharing("n1"), node_sharing("n2", gpus=[withdrawing])]))
    kept.become(apply(kept.world, kept.decide(now=NOW)))
    assert kept.decide(now=NOW) == []
    assert kept.decider.next_in(now=NOW) == IDLE_WAIT
    assert seconds(LATER) - seconds(NOW) == IDLE_WAIT
    [intent] = kept.decide(now=LATER)
    assert isinstance(intent, ReplaceSpec)
    assert intent.spec.gpus[0].close_approved == ("gpu-0-timeslicing",)
    assert kept.decider.next_in(now=LATER) is None


def reporting(name: str, **report: Any) -> NodeSharing:
    sharing = node_sharing(name, gpus=2)
    return sharing.model_copy(update={"status": sharing.status.model_copy(update=report)})


def test_a_node_that_cannot_be_decided_on_concerns_nobody_else() -> None:
    """It reports more GPUs than a spec can have."""
    poison = reporting("n2", gpus=tuple(gpu_status(slot, node="n2") for slot in range(73)))
    policies = [policy("here", offers=time_slicing(3)), policy("elsewhere", priority=1, nodes={"pool": "x"})]
    nodes = [node("n1"), node("n2"), node("n3", pool="x")]
    good = world(policies=policies, nodes=nodes, node_sharings=[node_sharing("n1"), node_sharing("n3")])
    kept = Incremental(replace(good, node_sharings={**good.node_sharings, "n2": poison}))
    pending = kept.decide(now=NOW)
    alone = decide(good, now=NOW)
    assert [item for item in pending if isinstance(item, ReplaceSpec)] == [
        item for item in alone if isinstance(item, ReplaceSpec)
    ]
    statuses = {item.before.metadata.name: item.status for item in pending if isinstance(item, PatchStatus)}
    degraded = {name: condition(status, "Degraded") for name, status in statuses.items()}
    assert degraded["here"].reason == DegradedReason.INTERNAL_ERROR
    assert degraded["here"].message.startswith("the operator cannot decide on 1 node")
    assert degraded["elsewhere"].status is ConditionStatus.FALSE
    assert [late.node for late in statuses["here"].lagging if late.reason is LagReason.UNDECIDED] == ["n2"]
    [failure] = kept.decider.take_failures()
    assert (failure.kind, failure.name) == ("NodeSharing", "n2")
    # It is not tried again before something changes, and an edit of a policy is such a thing.
    kept.decide(now=NOW)
    assert kept.decider.take_failures() == []
    kept.become(with_policies(kept.world, policy("here", generation=2)))
    kept.decide(now=NOW)
    assert len(kept.decider.take_failures()) == 1
    # Once it can be decided on it is as if nothing had been.
    kept.become(replace(good, policies=kept.world.policies))
    assert kept.decide(now=NOW) == decide(kept.world, now=NOW)
    kept.become(replace(kept.world, node_sharings={**good.node_sharings, "n2": node_sharing("n2")}))
    assert kept.decide(now=NOW) == decide(kept.world, now=NOW)
    assert not kept.decider.failing


def test_an_undecidable_node_keeps_its_place_in_a_rollout() -> None:
    """Work is being evicted there: no other node begins, although nothing more can be decided on it."""
    at = world(
        policies=[policy("p", offers=time_slicing(4), rollout=Rollout(disruption=Disruption.EVICT))],
        nodes=[node("n1"), node("n2")],
        node_sharings=[node_sharing("n1"), node_sharing("n2")],
        claims=[claim(name, result("gpu-0-timeslicing", pool=name)) for name in ("n1", "n2")],
    )
    kept = Incremental(at)
    for _ in range(3):
        kept.become(agents_act(apply(kept.world, kept.decide(now=NOW))))
    edited = policy("p", generation=2, offers=EXCLUSIVE, rollout=Rollout(disruption=Disruption.EVICT))
    kept.become(with_policies(kept.world, edited.model_copy(update={"status": kept.world.policies["p"].status})))
    first = kept.decide(now=NOW)
    assert [item.before.metadata.name for item in first if isinstance(item, ReplaceSpec)] == ["n1"]
    kept.become(apply(kept.world, first))
    assert not [item for item in kept.decide(now=NOW) if isinstance(item, ReplaceSpec)]

    sharing = kept.world.node_sharings["n1"]
    poison = tuple(gpu_status(slot, node="n1") for slot in range(73))
    broken = sharing.model_copy(update={"status": sharing.status.model_copy(update={"gpus": poison})})
    kept.become(replace(kept.world, node_sharings={**kept.world.node_sharings, "n1": broken}))
    pending = kept.decide(now=NOW)
    assert kept.decider.failing == {("NodeSharing", "n1")}
    assert not [item for item in pending if isinstance(item, ReplaceSpec)]
    # The place is free when the node is gone.
    kept.become(without("nodes", "n1")(without("node_sharings", "n1")(kept.world)))
    assert [item.before.metadata.name for item in kept.decide(now=NOW) if isinstance(item, ReplaceSpec)] == ["n2"]


def test_a_node_that_cannot_be_decided_on_after_it_was_let_begin_gives_its_turn_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def with_a_fault(policies: Any, view: NodeView, *rest: Any, **named: Any) -> Any:
        if view.name == "n1":
            raise ZeroDivisionError
        return decide_node(policies, view, *rest, **named)

    at = world(
        policies=[policy("p", offers=time_slicing(4), rollout=Rollout(disruption=Disruption.EVICT))],
        nodes=[node("n1"), node("n2"), node("n3")],
        node_sharings=[node_sharing("n1"), node_sharing("n2"), node_sharing("n3")],
        claims=[claim(name, result("gpu-0-timeslicing", pool=name)) for name in NODES],
    )
    kept = Incremental(at)
    for _ in range(3):
        kept.become(agents_act(apply(kept.world, kept.decide(now=NOW))))
    edited = policy("p", generation=2, offers=EXCLUSIVE, rollout=Rollout(disruption=Disruption.EVICT))
    kept.become(with_policies(kept.world, edited.model_copy(update={"status": kept.world.policies["p"].status})))
    monkeypatch.setattr(module, "decide_node", with_a_fault)
    pending = kept.decide(now=NOW)
    assert kept.decider.failing == {("NodeSharing", "n1")}
    assert [item.before.metadata.name for item in pending if isinstance(item, ReplaceSpec)] == ["n2"]


def test_a_status_that_cannot_be_decided_is_no_failure_any_more_when_its_policy_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "policy_status", broken)
    kept = Incremental(world(policies=[policy("a"), policy("b")], node_sharings=[node_sharing("n1")]))
    kept.decide(now=NOW)
    assert kept.decider.failing == {("SharingPolicyStatus", "a"), ("SharingPolicyStatus", "b")}
    assert {(one.kind, one.name) for one in kept.decider.take_failures()} == kept.decider.failing
    kept.become(without("policies", "a")(kept.world))
    kept.decide(now=NOW)
    assert kept.decider.failing == {("SharingPolicyStatus", "b")}


def test_a_policy_that_makes_decisions_fail_concerns_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the kind is known: a fault stands for it."""

    def with_a_fault(offers: Offers, **rest: Any) -> Any:
        if offers == time_slicing(7):
            raise ZeroDivisionError
        return resolution.resolve(offers, **rest)

    monkeypatch.setattr(node_decision, "resolve", with_a_fault)
    good, bad = policy("good"), policy("bad", priority=1, max_per_node=1, offers=time_slicing(7))
    at = world(policies=[good, bad], node_sharings=[node_sharing("n1", gpus=2), node_sharing("n2", gpus=2)])
    kept = Incremental(at)
    pending = kept.decide(now=NOW)
    specs = [item.spec for item in pending if isinstance(item, ReplaceSpec)]
    assert [[gpu.offers for gpu in spec.gpus] for spec in specs] == [[Offers(), time_slicing()]] * 2
    statuses = {item.before.metadata.name: item.status for item in pending if isinstance(item, PatchStatus)}
    assert condition(statuses["good"], "Degraded").status is ConditionStatus.FALSE
    assert condition(statuses["bad"], "Degraded").reason == DegradedReason.INTERNAL_ERROR
    # An edit that fails leaves what was in force.
    monkeypatch.undo()
    kept = Incremental(with_policies(at, policy("bad", priority=1, max_per_node=1, offers=time_slicing(6))))
    kept.become(apply(kept.world, kept.decide(now=NOW)))
    monkeypatch.setattr(node_decision, "resolve", with_a_fault)
    kept.become(with_policies(kept.world, bad.model_copy(update={"status": kept.world.policies["bad"].status})))
    specs = [item.spec for item in kept.decide(now=NOW) if isinstance(item, ReplaceSpec)]
    assert [[gpu.offers for gpu in spec.gpus] for spec in specs] == [[time_slicing(6), time_slicing()]] * 2


def test_what_a_suspended_policy_would_do_is_asked_where_it_would_do_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of policies may be suspended, each for a few nodes."""
    plan = Rollout(mode=RolloutMode.PLAN)
    others = [policy(f"other-{number}", nodes={"pool": "y"}, rollout=plan) for number in range(20)]
    here = policy("here", priority=1, nodes={"pool": "x"}, rollout=plan)
    had = policy("had", nodes={"pool": "y"}, rollout=plan)
    spec = NodeSharingSpec(gpus=(decided(0, had, node="n2"),))
    sharings = [node_sharing("n1"), node_sharing("n2", spec=spec), node_sharing("n3")]
    nodes = [node("n1", pool="x"), node("n2"), node("n3")]
    asked: list[list[str]] = []

    def counted(policies: Sequence[ExaminedPolicy], **rest: Any) -> Any:
        asked.append([examined.name for examined in policies if not examined.is_suspended])
        return assignment.assign(policies, **rest)

    monkeypatch.setattr(node_decision, "assign", counted)
    kept = Incremental(world(policies=[*others, here, had], nodes=nodes, node_sharings=sharings))
    pending = kept.decide(now=NOW)
    assert [names for names in asked if names] == [["here"], ["had"]]
    statuses = {item.before.metadata.name: item.status for item in pending if isinstance(item, PatchStatus)}
    planned = {name: [one.node for one in status.plan.nodes] for name, status in statuses.items() if status.plan}
    assert {name: nodes for name, nodes in planned.items() if nodes} == {"here": ["n1"], "had": ["n2"]}


@pytest.mark.parametrize("fails", ["held_back", "parts"])
def test_a_round_that_fails_is_begun_again(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """Whatever of it had been taken in, the first one or a later one."""
    at = world(policies=[policy()], node_sharings=[node_sharing("n1"), node_sharing("n2")])

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a world that nobody thought of")

    for settled in (False, True):
        kept = Incremental(at)
        if settled:
            kept.become(agents_act(apply(kept.world, kept.decide(now=NOW))))
            kept.decide(now=NOW)
            edited = policy(generation=2, offers=time_slicing(7))
            status = kept.world.policies["shared"].status
            kept.become(with_policies(kept.world, edited.model_copy(update={"status": status})))
        with monkeypatch.context() as patch:
            patch.setattr(module, fails, broken)
            with pytest.raises(RuntimeError):
                kept.decide(now=NOW)
        assert kept.decide(now=NOW) == decide(kept.world, now=NOW)


def test_a_status_does_not_speak_of_a_generation_that_was_not_decided_on() -> None:
    """The policy was edited while a round was under way."""
    kept = settled()
    old = kept.world.policies["here"]
    rounds = kept.decider.steps(now=NOW)
    next(rounds)
    new = policy("here", nodes={"pool": "x"}, priority=1, generation=2, accepted=False)
    kept.become(with_policies(kept.world, new.model_copy(update={"status": old.status})))
    for _ in rounds:
        pass
    fold(kept.decider, now=NOW)
    assert not [item for item in kept.decider.pending if isinstance(item, PatchStatus)]
    assert kept.decide(now=NOW) == decide(kept.world, now=NOW)
    [written] = [item.status for item in kept.decider.pending if isinstance(item, PatchStatus)]
    assert (written.observed_generation, condition(written, "Accepted").reason) == (2, "InvalidSelector")
    assert written.last_ready == old.status.last_ready


def test_a_policy_that_was_made_again_while_claims_wait_for_it_stops_nothing() -> None:
    waits = claim("c1", allocated=False, classes=("a-timeslicing",))
    nowhere = policy("a", nodes={"pool": "y"}, offers=time_slicing(4))
    kept = Incremental(with_claims(world(policies=[nowhere], classes=[class_of("a")]), waits))
    kept.decide(now=NOW)
    kept.become(replace(kept.world, policies={}))
    rounds = kept.decider.steps(now=NOW)
    next(rounds)
    kept.become(with_policies(kept.world, nowhere))
    for _ in rounds:
        pass
    fold(kept.decider, now=NOW)
    assert kept.decide(now=NOW) == decide(kept.world, now=NOW)
    assert not kept.decider.failing


@pytest.mark.parametrize("function", ["explain", "waiting_events", "examine_class"])
def test_waiting_claims_that_cannot_be_explained_concern_nobody_else(
    monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Nothing of the kind is known: a fault stands for it."""
    there = module if function == "examine_class" else waiting
    works = getattr(there, function)

    def with_a_fault(*given: Any, **named: Any) -> Any:
        if any("bad" in str(item) for item in given[:1]):
            raise ZeroDivisionError
        return works(*given, **named)

    good, bad = (policy(name, nodes={"pool": "y"}, offers=time_slicing(4)) for name in ("good", "bad"))
    claims = [
        claim("c1", allocated=False, classes=(f"{name}-timeslicing",), namespace=f"in-{name}")
        for name in ("good", "bad")
    ]
    classes = [class_of("good"), class_of("bad")]
    at = world(policies=[good, bad], node_sharings=[node_sharing()], classes=classes, claims=claims)
    kept = Incremental(at)
    with monkeypatch.context() as patch:
        patch.setattr(there, function, with_a_fault)
        assert kept.decide(now=NOW) == decide(at, now=NOW)
        assert [event.about.namespace for event in kept.decider.waiting_events] == ["in-good"]
        [failure] = kept.decider.take_failures()
        named = "bad-timeslicing" if function == "examine_class" else "in-bad/bad-timeslicing"
        assert failure[:2] == ("DeviceClass" if function == "examine_class" else "WaitingClaims", named)
        assert kept.decider.failing == {failure[:2]}
        # It is reported once.
        kept.decide(now=NOW)
        assert kept.decider.take_failures() == []
        kept.become(without("claims", ("in-bad", "c1"))(kept.world))
        kept.decide(now=NOW)
        assert not kept.decider.failing
        kept.become(at)
        kept.decide(now=NOW)
        assert kept.decider.failing == {failure[:2]}
    # Once it can be explained it is as if nothing had been.
    kept.become(with_claims(at, claim("c2", allocated=False, classes=("bad-timeslicing",), namespace="in-bad")))
    kept.decide(now=NOW)
    assert by_object(kept.decider.waiting_events) == by_object(events(kept.world, now=NOW))
    assert not kept.decider.failing


def condition(status: SharingPolicyStatus, type_: str) -> Condition:
    return next(condition for condition in status.conditions if condition.type == type_)


def of_team(team: str) -> Tenants:
    return Tenants(namespaces=LabelSelector(match_labels={"team": team}))


SUSPENDED = [
    pytest.param({"rollout": Rollout(paused=True)}, id="paused"),
    pytest.param({"rollout": Rollout(mode=RolloutMode.PLAN)}, id="plan"),
    pytest.param({"accepted": False}, id="not accepted"),
]


@pytest.mark.parametrize("suspended", SUSPENDED)
@pytest.mark.parametrize("was", [["a"], ["b", "a"]], ids=["made", "edited before"])
@pytest.mark.parametrize("is_ready", [True, False], ids=["ready", "never wholly ready"])
def test_of_an_edit_of_a_suspended_policy_nothing_counts_nor_after_a_failover(
    *, is_ready: bool, was: Sequence[str], suspended: Mapping[str, Any]
) -> None:
    """What is in force is what the guards know, whatever its status says: they let the same tenants in."""

    def settle(*, silent: str = "n2") -> None:
        for _ in range(5):
            written = apply(kept.world, kept.decide(now=NOW))
            still = {name: item for name, item in written.node_sharings.items() if name == silent}
            kept.become(replace(written, node_sharings={**agents_act(written).node_sharings, **still}))

    def edit(**change: Any) -> None:
        before = kept.world.policies["p"]
        generation = before.metadata.generation + 1
        kept.become(with_policies(kept.world, policy("p", generation=generation, status=before.status, **change)))

    at = world(
        policies=[policy("p", tenants=of_team(was[0]))],
        nodes=[node("n1"), node("n2")],
        node_sharings=[node_sharing("n1"), node_sharing("n2")],
        namespaces={team: {"team": team} for team in "abc"},
    )
    kept = Incremental(replace(at, guards=guards.installed(), bindings=guards.bound()))
    settle(silent="" if is_ready else "n2")
    for team in was[1:]:
        edit(tenants=of_team(team))
        settle()
    before = kept.world.policies["p"].status
    assert (before.last_ready is not None) is is_ready
    edit(tenants=of_team("c"), **suspended)
    settle()
    assert kept.world.policies["p"].status.last_ready == before.last_ready
    held = [
        claim(team, result(f"gpu-{slot}-timeslicing", pool="n1/p"), namespace=team) for slot, team in enumerate("abc")
    ]
    kept.become(with_claims(kept.world, *held))
    intents = kept.decide(now=NOW)
    assert intents == decide(kept.world, now=NOW)
    [written] = [intent.spec for intent in intents if isinstance(intent, ReplaceSpec)]
    allowed = [entry.claim for entry in written.claims if entry.verdict is Verdict.ALLOWED]
    assert allowed == ["a/a"]
    known = guards.variables(kept.world.guards["gpusharing-allocation"])["tenants"]
    assert [team for team in "abc" if f"team={team}" in known] == ["a"]


@pytest.mark.parametrize(
    ("known", "allowed"),
    [
        ({"p": '[["In", "team=x"]]'}, True),
        ({"p": '[["In", "team=y"]]'}, False),
        ({}, False),
        # Somebody else has written these.
        ({"p": "[]"}, False),
        ({"p": "x"}, False),
    ],
)
def test_the_tenants_of_a_suspended_policy_are_those_that_the_guards_know(
    known: Mapping[str, str], *, allowed: bool
) -> None:
    """Also when the guards come to know others: another operator led for a while."""
    suspended = policy("p", rollout=Rollout(paused=True), status=was_ready(TEAM_Y))
    at = world(
        policies=[suspended],
        node_sharings=[node_sharing("n1", spec=NodeSharingSpec(gpus=(decided(0, policy("p", tenants=TEAM_X)),)))],
        namespaces={"team": {"team": "x"}},
        claims=[claim("c1", result("gpu-0-timeslicing", pool="n1/p"), namespace="team")],
    )
    kept = Incremental(replace(at, guards=guards.knowing({"p": '[["In", "team=z"]]'})))
    assert verdicts(kept.decide(now=NOW)) == [Verdict.DENIED]
    kept.become(replace(kept.world, guards=guards.knowing(known)))
    assert verdicts(kept.decide(now=NOW)) == [Verdict.ALLOWED if allowed else Verdict.DENIED]
    assert kept.decide(now=NOW) == decide(kept.world, now=NOW)


def verdicts(intents: Iterable[Intent]) -> list[Verdict]:
    return [entry.verdict for intent in intents if isinstance(intent, ReplaceSpec) for entry in intent.spec.claims]
