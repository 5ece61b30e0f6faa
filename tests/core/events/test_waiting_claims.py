"""Claims that a policy keeps waiting, and those that others do."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from building import NOW, claim, class_of, node, node_sharing, policy, time_slicing, world
from building.cluster import agents_act, apply, with_policies
from building.from_nothing import World, decide, events
from building.guards import bound, installed
from building.incremental import Incremental, by_object
from gpusharing.api.dra import Namespace, ResourceClaim
from gpusharing.api.meta import LabelSelector, NamespaceMeta, OwnerReference
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.rollout import Rollout
from gpusharing.api.sharing.tenants import Tenants
from gpusharing.core.intents import RecordEvent, Target

NOWHERE = policy("nowhere", nodes={"pool": "x"}, offers=time_slicing(3))
WAITS = claim("c1", allocated=False, classes=["nowhere-timeslicing"], made_for="p1")


def told(found: Iterable[RecordEvent]) -> list[str]:
    return [f"{event.target} {event.about.name}" for event in found]


def occurrences(found: Iterable[RecordEvent]) -> set[tuple[str, str, str]]:
    """What makes each another Event than those before."""
    return {(event.about.uid, event.reason, event.occurrence) for event in found}


def at(*claims: ResourceClaim) -> World:
    return world(
        policies=[NOWHERE],
        node_sharings=[node_sharing()],
        claims=claims,
        classes=[class_of("nowhere"), class_of("gone")],
    )


def test_claim_and_pod_are_told_which_policy_has_nothing_and_why() -> None:
    found = events(at(WAITS), now=NOW)
    assert told(found) == ["ResourceClaim c1", "Pod p1"]
    [notice, _] = found
    assert notice.reason == "PolicyHasNoGpus"
    assert notice.note == (
        "device class nowhere-timeslicing is for GPUs of SharingPolicy nowhere, which has none (NoMatchingNodes): its "
        "condition Ready says what to do"
    )


def after(before: World) -> World:
    """With the classes as they were: whether they are right is not what this is about."""
    return replace(apply(before, decide(before, now=NOW)), classes=before.classes)


def test_it_stays_one_event_while_the_reason_is_the_same() -> None:
    """However many nodes come, and whatever else of the world changes."""
    shared, above = policy("shared", offers=time_slicing(4)), policy("above", priority=1, offers=time_slicing(8))
    of = world(policies=[shared, above], node_sharings=[node_sharing("n1")], claims=[WAITS_FOR_SHARED])
    of = settled(replace(of, classes=CLASSES))
    first = occurrences(events(of, now=NOW))
    assert {reason for _, reason, _ in first} == {"PolicyHasNoGpus"}
    notes = {event.note for event in events(of, now=NOW)}
    for name in ("n2", "n3"):
        of = replace(of, node_sharings={**of.node_sharings, name: node_sharing(name)})
        of = settled(replace(of, nodes={**of.nodes, name: node(name)}))
        assert occurrences(events(of, now=NOW)) == first
        assert {event.note for event in events(of, now=NOW)} == notes


WAITS_FOR_SHARED = claim("c1", allocated=False, classes=["shared-timeslicing"], made_for="p1")
CLASSES = {"shared-timeslicing": class_of("shared")}


def settled(of: World) -> World:
    for _ in range(4):
        of = agents_act(after(of))
    return of


def test_one_that_goes_or_is_made_again_is_not_taken_for_the_other_of_its_group() -> None:
    """The reason of the group is the same as before, so that only the claims tell."""
    other = claim("c2", allocated=False, classes=["nowhere-timeslicing"])
    kept = Incremental(at(WAITS, other))
    kept.decide(now=NOW)
    kept.decider.take_events()
    again = replace(WAITS, metadata=replace(WAITS.metadata, uid="another"))
    kept.become(at(again))
    kept.decide(now=NOW)
    assert told(kept.decider.waiting_events) == ["ResourceClaim c1", "Pod p1"]
    assert kept.decider.waiting_events[0].about.uid == "another"
    assert list(kept.decider.take_events()) == kept.decider.waiting_events


def test_another_reason_is_another_event() -> None:
    edited = policy("nowhere", generation=2, accepted=False)
    before, now = after(at(WAITS)), with_policies(after(at(WAITS)), edited)
    assert told(events(now, now=NOW)) == ["ResourceClaim c1", "Pod p1"]
    assert not occurrences(events(now, now=NOW)) & occurrences(events(before, now=NOW))


@pytest.mark.parametrize(
    "owner",
    [
        {"apiVersion": "nosuch.example/v1", "kind": "Pod", "name": "p1", "uid": "u"},
        {"apiVersion": "v1", "kind": "Deployment", "name": "p1", "uid": "u"},
        {"apiVersion": "v1", "kind": "Pod", "name": "UPPER case/../x", "uid": "u"},
        {"apiVersion": "v1", "kind": "Pod", "name": "p" * 254, "uid": "u"},
        {"apiVersion": "v1", "kind": "Pod", "name": "p1\n", "uid": "u"},
        {"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"},
        {"apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": ""},
        {"apiVersion": "v1", "kind": "Pod"},
        {"kind": "Pod", "name": "p1", "uid": "u"},
    ],
    ids=itertools.count(),
)
def test_what_is_no_pod_gets_no_event(owner: dict[str, str]) -> None:
    waits = replace(WAITS, metadata=replace(WAITS.metadata, owner_references=(OwnerReference(**owner),)))
    assert told(events(at(waits), now=NOW)) == ["ResourceClaim c1"]


@pytest.mark.parametrize(
    "item",
    [
        claim("c1", classes=["nowhere-timeslicing"]),
        claim("c1", allocated=False, classes=["timeslicing.gpu.nvidia.com"]),
        claim("c1", allocated=False, classes=["gone-timeslicing"]),
        claim("c1", allocated=False),
    ],
)
def test_others_are_not_told(item: ResourceClaim) -> None:
    assert told(events(at(item), now=NOW)) == []


def test_where_there_are_gpus_it_is_the_schedulers_to_say() -> None:
    somewhere = world(
        policies=[NOWHERE],
        nodes=[node("n1", pool="x")],
        node_sharings=[node_sharing()],
        claims=[WAITS],
        classes=[class_of("nowhere")],
    )
    assert told(events(somewhere, now=NOW)) == []


def in_force(now: SharingPolicy) -> World:
    """The policy, on a node, with the classes of all ways; somebody asks for each, in a namespace of each kind."""
    claims = [
        claim(f"{way}-{namespace}", allocated=False, classes=[f"p-{way}"], namespace=namespace)
        for way in ("exclusive", "timeslicing")
        for namespace in ("search", "other")
    ]
    at = world(
        policies=[now],
        node_sharings=[node_sharing()],
        claims=claims,
        classes=[class_of("p", "exclusive"), class_of("p", "timeslicing")],
        namespaces={"search": {"team": "search"}, "other": {}},
    )
    at = replace(at, guards=installed(), bindings=bound())
    for _ in range(4):
        at = agents_act(after(at))
    return at


def edited(at: World, **spec: Any) -> World:
    """Decided, and not done yet."""
    offers = spec.pop("offers", SHARED)
    new = policy("p", generation=2, offers=offers, **spec)
    return with_policies(at, new.model_copy(update={"status": at.policies["p"].status}))


SHARED = time_slicing(3)
BOTH = time_slicing(3, exclusive=True)
FOR_SEARCH = Tenants(namespaces=LabelSelector(match_labels={"team": "search"}))
UNKNOWN = Namespace(metadata=NamespaceMeta(name="other", labels=None))
TENANT = Namespace(metadata=NamespaceMeta(name="other", labels={"team": "search"}))
EXCLUSIVE_ASKED = ["exclusive-other", "exclusive-search"]
FOR_SEARCH_ALONE = in_force(policy("p", offers=BOTH, tenants=FOR_SEARCH))


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (in_force(policy("p", offers=BOTH)), {}),
        (in_force(policy("p", offers=SHARED)), {"ModeNotOffered": EXCLUSIVE_ASKED}),
        (FOR_SEARCH_ALONE, {"NotATenant": ["exclusive-other", "timeslicing-other"]}),
        (
            in_force(policy("p", offers=SHARED, tenants=FOR_SEARCH)),
            {"NotATenant": ["timeslicing-other"], "ModeNotOffered": EXCLUSIVE_ASKED},
        ),
        # What is not in force everywhere may be had as before.
        (edited(in_force(policy("p", offers=BOTH))), {}),
        (edited(in_force(policy("p", offers=BOTH)), offers=BOTH, tenants=FOR_SEARCH), {}),
        # Nor does it count what a suspended policy says.
        (edited(in_force(policy("p", offers=BOTH)), rollout=Rollout(paused=True)), {}),
        (edited(in_force(policy("p", offers=BOTH)), offers=BOTH, tenants=FOR_SEARCH, rollout=Rollout(paused=True)), {}),
        # Of a namespace that is not known yet, nobody knows whether it is a tenant.
        (replace(FOR_SEARCH_ALONE, namespaces={}), {}),
        (replace(FOR_SEARCH_ALONE, namespaces={**FOR_SEARCH_ALONE.namespaces, "other": UNKNOWN}), {}),
    ],
    ids=itertools.count(),
)
def test_what_a_policy_in_force_does_not_give_is_said(world: World, expected: Mapping[str, Sequence[str]]) -> None:
    found: dict[str, list[str]] = {}
    for event in events(world, now=NOW):
        if event.target is Target.RESOURCE_CLAIM:
            found.setdefault(event.reason, []).append(event.about.name)
    assert {reason: sorted(names) for reason, names in found.items()} == expected


def test_both_say_what_to_do() -> None:
    notes = {
        event.reason: event.note for event in events(in_force(policy("p", offers=SHARED, tenants=FOR_SEARCH)), now=NOW)
    }
    assert notes == {
        "ModeNotOffered": (
            "device class p-exclusive requests Exclusive on GPUs of SharingPolicy p, which does not offer Exclusive; "
            "use one of the modes in spec.offers"
        ),
        "NotATenant": (
            "device class p-timeslicing is for GPUs of SharingPolicy p, and namespace other is not one of its tenants "
            "(spec.tenants.namespaces: team=search)"
        ),
    }


def test_they_are_kept_up_to_date() -> None:
    at = in_force(policy("p", offers=BOTH))
    kept = Incremental(at)
    steps: list[Callable[[World], World]] = [
        lambda of: edited(of, offers=SHARED, tenants=FOR_SEARCH),
        lambda of: replace(of, namespaces={**of.namespaces, "other": TENANT}),
        lambda of: replace(of, namespaces={}),
        lambda of: replace(of, claims={}),
    ]
    for step in steps:
        at = step(at)
        for _ in range(3):
            kept.become(at)
            assert kept.decide(now=NOW) == decide(kept.world, now=NOW)
            assert by_object(kept.decider.waiting_events) == by_object(events(kept.world, now=NOW))
            at = agents_act(after(kept.world))
