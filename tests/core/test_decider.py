"""Kept up to date, the decision is the one that is made from nothing."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import (
    LATER,
    NOW,
    claim,
    class_of,
    gpu_status,
    node,
    node_sharing,
    policy,
    result,
    taint_rule,
    time_slicing,
    world,
)
from building.cluster import agents_act, apply, with_claims, with_policies
from building.worlds import NODES, POLICIES, claims, node_sharings, policies, worlds
from gpusharing.api.dra import DeviceTaintRule, Namespace
from gpusharing.api.meta import ObjectMeta
from gpusharing.api.sharing.gpu_status import PublishedDevice
from gpusharing.core import decider as module
from gpusharing.core.decide import decide
from gpusharing.core.decider import Decider
from gpusharing.core.intents import PatchStatus, ReplaceSpec, Target, Tell
from gpusharing.core.moments import seconds
from gpusharing.core.narrowing import IDLE_WAIT
from gpusharing.core.node_decision import decision
from gpusharing.core.world import NodeView, World

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


def _told(world: World) -> Mapping[tuple[str, str], Tell]:
    return {
        (uid, note): _TOLD.setdefault(
            (uid, note),
            Tell(
                target=Target.RESOURCE_CLAIM,
                about=ObjectMeta(name="any", uid=uid),
                warning=True,
                reason="any",
                action="any",
                note=note,
            ),
        )
        for uid, notes in world.told.items()
        for note in notes
    }


_TOLD: dict[tuple[str, str], Tell] = {}


class Kept:
    """A decider that is told of each change, as the store tells it."""

    def __init__(self, at: World) -> None:
        self.decider = Decider(at.setup)
        self.world = World(driver=at.driver, minor=at.minor, policies={}, nodes={}, node_sharings={}, claims={})
        self.become(at)

    def become(self, at: World) -> None:
        kinds: list[Callable[[World], Mapping[Any, Any]]] = [
            lambda of: of.policies,
            lambda of: of.nodes,
            lambda of: of.node_sharings,
            lambda of: of.claims,
            lambda of: of.namespaces,
            lambda of: of.classes,
            lambda of: of.guards,
            lambda of: of.bindings,
            lambda of: of.quotas,
            lambda of: of.taint_rules or {},
            _told,
        ]
        for kind in kinds:
            before, after = kind(self.world), kind(at)
            for name in before.keys() - after.keys():
                self.decider.present.drop(before[name])
            for name, item in after.items():
                if before.get(name) is not item:
                    self.decider.present.put(item)
        # What was told to whom does not wait any more is forgotten.
        self.world = replace(at, told={uid: {*notes} for uid, notes in self.decider.present.told.items()})


def without(field: str, name: str) -> Step:
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


def with_namespace(name: str, labels: Mapping[str, str]) -> Step:
    namespace = Namespace(metadata=ObjectMeta(name=name, labels=dict(labels)))
    return lambda at: replace(at, namespaces={**at.namespaces, name: namespace})


def with_taint_rule(rule: DeviceTaintRule) -> Step:
    return lambda at: (
        at if at.taint_rules is None else replace(at, taint_rules={**at.taint_rules, rule.metadata.name: rule})
    )


def step(data: st.DataObject) -> Step:
    name = st.sampled_from(NODES)
    steps: list[Callable[[], Step]] = [
        lambda: lambda at: with_policies(at, data.draw(policies)),
        lambda: without("policies", data.draw(st.sampled_from(POLICIES))),
        lambda: with_sharing(data.draw(name), data),
        lambda: without("node_sharings", data.draw(name)),
        lambda: with_node(data.draw(name), data.draw(st.sampled_from([{}, {"pool": "x"}]))),
        lambda: without("nodes", data.draw(name)),
        lambda: lambda at: with_claims(at, data.draw(claims())),
        lambda: without("claims", data.draw(st.sampled_from(["uid-c1", "uid-c2"]))),
        lambda: agents_act,
        lambda: lambda at: apply(at, decide(at, now=NOW)),
        lambda: with_namespace("team", data.draw(st.sampled_from([{"team": "x"}, {}]))),
        lambda: without("namespaces", data.draw(st.sampled_from(["team", "default"]))),
        lambda: with_taint_rule(taint_rule(data.draw(st.sampled_from(["gpu-0", "gpu-0-timeslicing"])))),
    ]
    return data.draw(st.sampled_from(steps))()


@given(worlds(), st.data())
def test_after_any_history_it_is_what_is_decided_from_nothing(at: World, data: st.DataObject) -> None:
    kept = Kept(at)
    for now in MOMENTS:
        assert kept.decider.decide(now=now) == decide(kept.world, now=now)
        for _ in range(data.draw(st.integers(0, 3))):
            kept.become(step(data)(kept.world))


@given(worlds())
def test_nothing_is_decided_again_when_nothing_has_changed(at: World) -> None:
    kept = Kept(at)
    for _ in range(3):
        kept.become(agents_act(apply(kept.world, kept.decider.decide(now=NOW))))
    assert kept.decider.decide(now=NOW) == []
    assert decisions_on_nodes(lambda: kept.decider.decide(now=NOW)) == []


def decisions_on_nodes(of: Callable[[], object]) -> list[str]:
    """The nodes that were decided on meanwhile."""
    seen: list[str] = []

    def noted(candidates: Any, view: NodeView, *rest: Any, **named: Any) -> Any:
        seen.append(view.name)
        return decision(candidates, view, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "decision", noted)
        of()
    return seen


def settled() -> Kept:
    kept = Kept(
        world(
            policies=[policy("everywhere"), policy("here", nodes={"pool": "x"}, priority=1)],
            nodes=[node("n3", pool="x")],
            node_sharings=[node_sharing(name) for name in NODES],
        )
    )
    for _ in range(3):
        kept.become(agents_act(apply(kept.world, kept.decider.decide(now=NOW))))
    assert kept.decider.decide(now=NOW) == []
    return kept


EDITED = policy("here", nodes={"pool": "x"}, priority=1, generation=2, offers=time_slicing(7))


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
    assert decisions_on_nodes(lambda: kept.decider.decide(now=NOW)) == decided
    # And those that were spared are as they would be decided on.
    assert kept.decider.decide(now=NOW) == decide(kept.world, now=NOW)


def test_what_agents_say_in_a_claim_is_no_change() -> None:
    kept = settled()
    held = claim("c1", result("gpu-0-timeslicing"))
    kept.become(with_claims(kept.world, held))
    kept.decider.decide(now=NOW)
    told = replace(
        held,
        metadata=replace(held.metadata, resource_version="2"),
        status=replace(held.status, devices=({"driver": "other"},)),
    )
    kept.become(with_claims(kept.world, told))
    assert not kept.decider.present.has_changed


def test_a_status_of_ours_concerns_no_node() -> None:
    kept = Kept(world(policies=[policy()], node_sharings=[node_sharing()]))
    statuses = [intent for intent in kept.decider.decide(now=NOW) if isinstance(intent, PatchStatus)]
    kept.become(apply(kept.world, statuses))
    assert decisions_on_nodes(lambda: kept.decider.decide(now=NOW)) == []


def test_a_pod_may_be_told_again_when_one_of_its_claims_waits_no_longer() -> None:
    """What it was told is forgotten with that claim, and the other one waits still."""
    waits = claim("c1", allocated=False, classes=("a-timeslicing",), made_for="p1")
    other = claim("c2", allocated=False, classes=("a-timeslicing",), made_for="p1")
    nowhere = policy("a", nodes={"pool": "y"}, offers=time_slicing(4))
    kept = Kept(with_claims(world(policies=[nowhere], classes=[class_of("a")]), waits, other))
    intents = kept.decider.decide(now=NOW)
    kept.become(apply(kept.world, [intent for intent in intents if isinstance(intent, PatchStatus | Tell)]))
    kept.decider.decide(now=NOW)
    assert "uid-p1" in kept.decider.present.told
    kept.become(with_claims(kept.world, claim("c2", allocated=False, made_for="p1")))
    assert kept.decider.decide(now=NOW) == decide(kept.world, now=NOW)


def test_time_alone_is_looked_at_when_its_moment_has_come() -> None:
    closing = PublishedDevice(device="gpu-0-timeslicing", closing_since=NOW)
    withdrawing = gpu_status(0, node="n2").model_copy(update={"published": (closing,)})
    kept = Kept(world(node_sharings=[node_sharing("n1"), node_sharing("n2", gpus=[withdrawing])]))
    kept.become(apply(kept.world, kept.decider.decide(now=NOW)))
    assert kept.decider.decide(now=NOW) == []
    assert kept.decider.next_in(now=NOW) == IDLE_WAIT
    assert seconds(LATER) - seconds(NOW) == IDLE_WAIT
    [intent] = kept.decider.decide(now=LATER)
    assert isinstance(intent, ReplaceSpec)
    assert intent.spec.gpus[0].close_approved == ("gpu-0-timeslicing",)
    assert kept.decider.next_in(now=LATER) is None


def test_a_decision_that_fails_is_made_from_nothing_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(world(policies=[policy()], node_sharings=[node_sharing("n1"), node_sharing("n2")]))

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a world that nobody thought of")

    with monkeypatch.context() as patch:
        patch.setattr(module, "policy_status", broken)
        with pytest.raises(RuntimeError):
            kept.decider.decide(now=NOW)
    assert kept.decider.decide(now=NOW) == decide(kept.world, now=NOW)
