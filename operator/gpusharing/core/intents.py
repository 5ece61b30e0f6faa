"""What decisions ask for. Each is one write to the API, by itself: the failure of one stops no other."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from gpusharing.api.meta import Condition, ObjectMeta
from gpusharing.api.sharing import NodeSharing, NodeSharingSpec, SharingPolicy, SharingPolicyStatus


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
    """Write a policy's status; announce it where Ready changed."""

    before: SharingPolicy
    status: SharingPolicyStatus

    @property
    def announcement(self) -> Condition | None:
        old, new = (_ready(status) for status in (self.before.status, self.status))
        changed = new is not None and (old is None or old.status != new.status)
        return new if changed else None


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


def _ready(status: SharingPolicyStatus) -> Condition | None:
    return next((condition for condition in status.conditions if condition.type == "Ready"), None)
