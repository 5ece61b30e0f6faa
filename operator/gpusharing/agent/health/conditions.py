"""The agent's conditions, which keep the time at which they became true or false."""

from collections.abc import Iterable, Sequence
from typing import Final

from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing.gpu_status import HEALTHY
from gpusharing.core.publishing.gpu_health import Effect, Finding

READY: Final = "Ready"
HELD: Final = "Held"
"""True while a claim has a GPU and the API does not know it as allocated. Otherwise absent."""
STATE_TRUSTED: Final = "StateTrusted"
"""False while a file of the agent's state is put aside."""


def healthy(found: Sequence[Finding], before: Iterable[Condition], *, now: str) -> Condition:
    """Of a GPU, or of a claim's device. Findings without an effect do not make it unhealthy."""
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


def find(type_: str, conditions: Iterable[Condition]) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def condition(
    type_: str, *, is_so: bool, reason: str, message: str, before: Iterable[Condition], now: str
) -> Condition:
    status = ConditionStatus.TRUE if is_so else ConditionStatus.FALSE
    last = find(type_, before)
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=last.last_transition_time if last and last.status == status else now,
    )
