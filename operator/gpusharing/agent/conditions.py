"""The agent's words as conditions, which keep the time at which they became true or false."""

from collections.abc import Iterable, Sequence
from typing import Final

from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.core.publishing.gpu_health import HEALTHY, Effect, Finding

READY: Final = "Ready"
STATE_TRUSTED: Final = "StateTrusted"
"""False while a file of the agent's state is put aside."""


def healthy(found: Sequence[Finding], before: Iterable[Condition], *, now: str) -> Condition:
    """Of a GPU, or of what a claim has of it. What people are only told of does not make it unhealthy."""
    return condition(
        HEALTHY,
        is_so=all(finding.effect is Effect.NONE for finding in found),
        reason=found[0].reason if found else HEALTHY,
        message=messages(found),
        before=before,
        now=now,
    )


def messages(found: Sequence[Finding]) -> str:
    return "; ".join(finding.message for finding in found)


def named(type_: str, conditions: Iterable[Condition]) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def condition(
    type_: str, *, is_so: bool, reason: str, message: str, before: Iterable[Condition], now: str
) -> Condition:
    status = ConditionStatus.TRUE if is_so else ConditionStatus.FALSE
    last = named(type_, before)
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=last.last_transition_time if last and last.status == status else now,
    )
