"""Events on a policy: what has changed in its status, and how many claims an edit of it concerns."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from gpusharing.api.meta import Condition, ConditionStatus, ObjectMeta
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.core.intents import RecordEvent, ReplaceSpec, Target
from gpusharing.core.reasons import ConditionType, ProgressingReason, ReadyReason

_WRONG: Final = {
    (ConditionType.ACCEPTED, ConditionStatus.FALSE),
    (ConditionType.CONFLICTED, ConditionStatus.TRUE),
    (ConditionType.DEGRADED, ConditionStatus.TRUE),
}


# As long as an edit is coming into force.
_EXPECTED: Final = {
    ReadyReason.PAUSED,
    ReadyReason.PLAN,
    ReadyReason.WAITING_FOR_GUARDS,
    ReadyReason.WAITING_FOR_NODES,
}


def status_events(before: SharingPolicy, status: SharingPolicyStatus) -> list[RecordEvent]:
    """Whether the policy is ready, each time that this changes; and what else is wrong, once for each reason."""
    known = {condition.type: condition for condition in before.status.conditions}
    return [
        _of_condition(before, known.get(condition.type), condition)
        for condition in status.conditions
        if _is_news(known.get(condition.type), condition)
    ]


def draining_events(specs: Iterable[ReplaceSpec], policies: Mapping[str, ObjectMeta]) -> list[RecordEvent]:
    """For each policy by which devices drain, one, with the number of claims that hold them: the Events on these claims
    may be thousands, of which not all are recorded.

    `policies`: those that there are; of one that was deleted, the Event has its name only.
    """
    first: dict[tuple[str, str], RecordEvent] = {}
    claims: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for event in (event for spec in specs for event in spec.notices):
        if event.policy:
            key = event.policy.name, event.action
            first.setdefault(key, event)
            claims[key].add(event.about.uid)
    return [
        _of_claims(event, event.policy, policies, len(claims[key]))
        for key, event in sorted(first.items())
        if event.policy
    ]


def _of_claims(
    event: RecordEvent, policy: PolicyReference, policies: Mapping[str, ObjectMeta], count: int
) -> RecordEvent:
    holders = f"{count} claims use devices" if count > 1 else "1 claim uses a device"
    effect = "pods using them are being evicted" if event.warning else "the claims keep them"
    return replace(
        event,
        target=Target.SHARING_POLICY,
        about=policies.get(policy.name) or ObjectMeta(name=policy.name),
        note=f"{holders} no longer offered because of SharingPolicy {policy.name}; {effect}",
        occurrence=f"{event.action} {policy.generation}",
        policy=None,
    )


def _is_news(before: Condition | None, now: Condition) -> bool:
    if now.type == ConditionType.READY:
        return before is None or before.status != now.status
    is_wrong = (now.type, now.status) in _WRONG or now.reason == ProgressingReason.STOPPED
    return is_wrong and (before is None or (before.status, before.reason) != (now.status, now.reason))


def _is_well(before: Condition | None, now: Condition) -> bool:
    if now.type != ConditionType.READY or now.status is ConditionStatus.TRUE:
        return now.type == ConditionType.READY
    was_edited = before is None or before.observed_generation != now.observed_generation
    return was_edited and now.reason in _EXPECTED


def _of_condition(policy: SharingPolicy, before: Condition | None, condition: Condition) -> RecordEvent:
    return RecordEvent(
        target=Target.SHARING_POLICY,
        about=policy.metadata,
        warning=not _is_well(before, condition),
        reason=condition.reason,
        action="Reconcile",
        note=condition.message,
        occurrence=f"{condition.type} {condition.last_transition_time}",
    )
