"""What decisions ask for. Each is one write to the API, by itself: the failure of one stops no other."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final

from gpusharing.api.meta import Condition, ConditionStatus, ObjectMeta
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import NodeSharingSpec
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.core.reasons import ConditionType, ProgressingReason


class Target(StrEnum):
    """Kinds that are written as plain objects."""

    ADMISSION_POLICY = "ValidatingAdmissionPolicy"
    DEVICE_CLASS = "DeviceClass"
    DEVICE_TAINT_RULE = "DeviceTaintRule"
    RESOURCE_QUOTA = "ResourceQuota"
    RESOURCE_CLAIM = "ResourceClaim"
    POD = "Pod"
    SHARING_POLICY = "SharingPolicy"


class Stage(IntEnum):
    """What is written first: nobody is let in before the guards know of it, and statuses speak of what is written."""

    GUARDS = 0
    CLASSES = 1
    NODES = 2
    STATUSES = 3
    EVENTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """An Event, for people who look at an object."""

    target: Target
    about: ObjectMeta
    warning: bool
    reason: str
    action: str
    note: str


@dataclass(frozen=True, slots=True)
class ReplaceSpec:
    """Write a NodeSharing's spec over the version that the decision was made on."""

    before: NodeSharing
    spec: NodeSharingSpec
    notices: tuple[Tell, ...] = ()
    """Told once it is written."""


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write a policy's status over the version that the decision was made on."""

    before: SharingPolicy
    status: SharingPolicyStatus

    @property
    def notices(self) -> tuple[Tell, ...]:
        """Told once it is written: whether the policy is ready, each time that this changes; and what else is wrong,
        once for each reason."""
        before = {condition.type: condition for condition in self.before.status.conditions}
        return tuple(
            _announcement(self.before, condition)
            for condition in self.status.conditions
            if _is_news(before.get(condition.type), condition)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    target: Target
    stage: Stage
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A merge patch of the version that the decision was made on."""

    target: Target
    stage: Stage
    before: ObjectMeta
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    target: Target
    stage: Stage
    before: ObjectMeta


Intent = ReplaceSpec | PatchStatus | Create | Patch | Delete | Tell


def stage(intent: Intent) -> Stage:
    match intent:
        case ReplaceSpec():
            return Stage.NODES
        case PatchStatus():
            return Stage.STATUSES
        case Tell():
            return Stage.EVENTS
        case Create() | Patch() | Delete():
            return intent.stage


_WRONG: Final = {
    (ConditionType.ACCEPTED, ConditionStatus.FALSE),
    (ConditionType.CONFLICTED, ConditionStatus.TRUE),
    (ConditionType.DEGRADED, ConditionStatus.TRUE),
}


def _is_news(before: Condition | None, now: Condition) -> bool:
    if now.type == ConditionType.READY:
        return before is None or before.status != now.status
    is_wrong = (now.type, now.status) in _WRONG or now.reason == ProgressingReason.STOPPED
    return is_wrong and (before is None or (before.status, before.reason) != (now.status, now.reason))


def _announcement(policy: SharingPolicy, condition: Condition) -> Tell:
    is_well = condition.type == ConditionType.READY and condition.status is ConditionStatus.TRUE
    return Tell(
        target=Target.SHARING_POLICY,
        about=policy.metadata,
        warning=not is_well,
        reason=condition.reason,
        action="Reconcile",
        note=condition.message,
    )
