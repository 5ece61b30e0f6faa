"""The agent's conditions, which keep the time at which they became true or false."""

from collections.abc import Iterable, Sequence
from typing import Final

from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.reasons import ConditionReason
from gpusharing.api.sharing.gpu_status import HEALTHY
from gpusharing.core.publishing.gpu_health import Finding

READY: Final = "Ready"
HELD: Final = "Held"
"""True while a claim has a GPU and the API does not know it as allocated. Otherwise absent."""
STATE_TRUSTED: Final = "StateTrusted"
"""False while a file of the agent's state is put aside."""


class ReadyReason(ConditionReason):
    """Of a NodeSharing, where the agent itself has no problem."""

    READY = "Ready", True, "The agent has applied the spec."
    GPU_UNHEALTHY = (
        "GpuUnhealthy",
        False,
        "A GPU of the node is unhealthy.",
        "See condition `Healthy` in `status.gpus[].conditions`.",
        "health.md",
    )
    SETTING_NOT_APPLIED = (
        "SettingNotApplied",
        False,
        "A setting that a claim or the policy needs could not be applied or read.",
        "Do what the message says; the agent tries again.",
    )


class CleanupReason(ConditionReason):
    """Of a NodeSharing, while the agent is being removed from its node."""

    WAITING = (
        "CleaningUp",
        False,
        "`gpusharing agent cleanup` runs on the node, and waits for pods that use GPUs.",
        "Delete the pods that the message names.",
    )
    FAILED = (
        "NotCleanedUp",
        False,
        "`gpusharing agent cleanup` could not restore everything, and tries again.",
        "Do what the message says.",
    )
    DONE = "CleanedUp", False, "Nothing of the agent is left on the node.", "Uninstall it, or let the agent run again."


class PreparedReason(ConditionReason):
    """Of a claim's device."""

    PREPARED = "Prepared", True, "The device is prepared with the settings of the entry."


class HealthyReason(ConditionReason):
    HEALTHY = "Healthy", True, "There is no problem."


class HeldReason(ConditionReason):
    NOT_ALLOCATED = (
        "ClaimNotAllocated",
        True,
        "A claim has the GPU, and the API does not know it as allocated any more.",
        "Delete the pods that the message names.",
        "health.md#gpus-of-claims-that-are-not-allocated",
    )


class TrustReason(ConditionReason):
    TRUSTED = "Trusted", True, "The state of the agent on the node is whole."
    FILES_PUT_ASIDE = (
        "FilesPutAside",
        False,
        (
            "Files of the agent were damaged or written by a newer agent, and are not used. The values to restore on "
            "a GPU may be lost."
        ),
        "Look at the GPU that the name of the file has, then delete the file.",
    )
    STATE_LOST = (
        "StateLost",
        False,
        "The state directory was empty when the agent started. What it had was recovered from the API.",
        "Find out who emptied it, then restart the agent.",
    )


def healthy(found: Sequence[Finding], before: Iterable[Condition], *, now: str) -> Condition:
    """Of a GPU, or of a claim's device: by the heaviest finding. Those without an effect do not make it unhealthy."""
    return condition(
        HEALTHY,
        reason=found[0].reason if found else HealthyReason.HEALTHY,
        message=messages(found),
        before=before,
        now=now,
    )


def messages(found: Sequence[Finding]) -> str:
    return "; ".join(finding.message for finding in found)


def find(type_: str, conditions: Iterable[Condition]) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def condition(type_: str, *, reason: ConditionReason, message: str, before: Iterable[Condition], now: str) -> Condition:
    status = ConditionStatus.TRUE if reason.is_true else ConditionStatus.FALSE
    last = find(type_, before)
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=last.last_transition_time if last and last.status == status else now,
    )
