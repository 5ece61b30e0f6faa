"""Events on a policy, of its status and of the claims that an edit concerns."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from building import EXCLUSIVE, NOW, claim, node_sharing, policy, result, time_slicing, world
from building.cluster import agents_act, apply, with_claims, with_policies
from building.from_nothing import World, decide
from gpusharing.api.meta import Condition, ConditionStatus, ObjectMeta
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.api.sharing.rollout import Disruption, Rollout
from gpusharing.core.events.policy_events import draining_events, status_events
from gpusharing.core.intents import RecordEvent, ReplaceSpec

NODES = [f"n{number}" for number in range(5)]


def condition(
    type_: str, status: ConditionStatus, reason: str, *, message: str = "", since: str = NOW, generation: int = 1
) -> Condition:
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=since,
    )


TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
READY = condition("Ready", TRUE, "Ready")
WAITING = condition("Ready", FALSE, "WaitingForNodes")
DEGRADED = condition("Degraded", TRUE, "NodesFailing")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [WAITING], ["Normal WaitingForNodes"]),
        ([], [condition("Ready", FALSE, "NoMatchingNodes")], ["Warning NoMatchingNodes"]),
        # An edit is on its way to the nodes; without one, something is lost.
        ([READY], [condition("Ready", FALSE, "WaitingForNodes", generation=2)], ["Normal WaitingForNodes"]),
        ([READY], [WAITING], ["Warning WaitingForNodes"]),
        ([READY], [condition("Ready", FALSE, "Plan", generation=2)], ["Normal Plan"]),
        ([READY], [condition("Ready", FALSE, "LostAllGpus", generation=2)], ["Warning LostAllGpus"]),
        ([WAITING], [READY], ["Normal Ready"]),
        ([READY], [READY], []),
        ([WAITING], [condition("Ready", FALSE, "NoMatchingNodes")], []),
        ([], [DEGRADED], ["Warning NodesFailing"]),
        ([DEGRADED], [condition("Degraded", TRUE, "NodesFailing", message="of others")], []),
        ([DEGRADED], [condition("Degraded", TRUE, "SelectorError")], ["Warning SelectorError"]),
        ([DEGRADED], [condition("Degraded", FALSE, "NotDegraded")], []),
        ([], [condition("Accepted", FALSE, "InvalidSelector")], ["Warning InvalidSelector"]),
        ([], [condition("Accepted", TRUE, "Accepted")], []),
        ([], [condition("Progressing", TRUE, "Stopped")], ["Warning Stopped"]),
        ([], [condition("Progressing", TRUE, "RollingOut")], []),
    ],
)
def test_what_is_news_of_a_status(before: list[Condition], after: list[Condition], expected: list[str]) -> None:
    known = policy(status=SharingPolicyStatus(conditions=tuple(before)))
    events = status_events(known, SharingPolicyStatus(conditions=tuple(after)))
    assert [f"{'Warning' if event.warning else 'Normal'} {event.reason}" for event in events] == expected


def test_each_time_that_ready_changes_is_an_event_of_its_own_and_other_words_are_not() -> None:
    def event(message: str, since: str) -> RecordEvent:
        after = condition("Ready", FALSE, "WaitingForNodes", message=message, since=since)
        (event,) = status_events(policy(), SharingPolicyStatus(conditions=(after,)))
        return event

    first, other_words, later = event("1 of 2", NOW), event("2 of 2", NOW), event("1 of 2", "2026-11-19T12:00:00Z")
    assert first.occurrence == other_words.occurrence != later.occurrence


def held(at: World, claims: int) -> World:
    """So many claims hold shares, in the order of the nodes."""
    return with_claims(
        at,
        *(
            claim(f"c{number}", result("gpu-0-timeslicing", pool=NODES[number % len(NODES)]), pods=[f"p{number}"])
            for number in range(claims)
        ),
    )


def in_force(claims: int) -> World:
    at = world(policies=[policy("p", offers=time_slicing(4))], node_sharings=[node_sharing(name) for name in NODES])
    for _ in range(3):
        at = agents_act(apply(at, decide(at, now=NOW)))
    return held(at, claims)


def drained(at: World) -> list[RecordEvent]:
    policies: Mapping[str, ObjectMeta] = {name: policy.metadata for name, policy in at.policies.items()}
    return draining_events([intent for intent in decide(at, now=NOW) if isinstance(intent, ReplaceSpec)], policies)


def without_policies(at: World) -> World:
    return replace(at, policies={})


def edited(at: World) -> World:
    return with_policies(at, policy("p", generation=2, offers=EXCLUSIVE))


def evicting(at: World) -> World:
    rollout = Rollout(disruption=Disruption.EVICT, max_unavailable="100%")
    return with_policies(at, policy("p", generation=2, offers=EXCLUSIVE, rollout=rollout))


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (edited(in_force(0)), []),
        (
            without_policies(in_force(12)),
            ["12 claims use devices no longer offered because of SharingPolicy p; the claims keep them"],
        ),
        (
            edited(in_force(1)),
            ["1 claim uses a device no longer offered because of SharingPolicy p; the claims keep them"],
        ),
    ],
    ids=["unused", "deleted", "edited"],
)
def test_an_edit_is_one_event_on_the_policy_with_the_number_of_claims(at: World, expected: Sequence[str]) -> None:
    events = drained(at)
    assert [event.note for event in events] == expected
    assert all(
        (event.target, event.about.name, event.reason) == ("SharingPolicy", "p", "DeviceDraining") for event in events
    )


def test_its_number_is_not_what_makes_it_another_event() -> None:
    (few,), (many,) = drained(edited(in_force(2))), drained(edited(in_force(9)))
    assert few.note != many.note
    assert (few.about, few.reason, few.occurrence) == (many.about, many.reason, many.occurrence)


def test_an_eviction_says_so() -> None:
    (event,) = drained(evicting(in_force(3)))
    assert (event.warning, event.action) == (True, "Evict")
    assert event.note.endswith("; pods using them are being evicted")
