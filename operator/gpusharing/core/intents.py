"""What decisions ask for. Each is one write to the API, by itself: the failure of one stops no other."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, ClassVar

from gpusharing.api.meta import ObjectMeta
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import NodeSharingSpec, PolicyReference
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_status import SharingPolicyStatus


class Target(StrEnum):
    """Kinds that are written, or that Events are about."""

    ADMISSION_POLICY = "ValidatingAdmissionPolicy"
    DEVICE_CLASS = "DeviceClass"
    DEVICE_TAINT_RULE = "DeviceTaintRule"
    RESOURCE_QUOTA = "ResourceQuota"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_CLAIM_TEMPLATE = "ResourceClaimTemplate"
    POD = "Pod"
    SHARING_POLICY = "SharingPolicy"
    NODE_SHARING = "NodeSharing"


class Stage(IntEnum):
    """What is written first where more is wanted than is written at a time."""

    GUARDS = 0
    CLASSES = 1
    NODES = 2
    STATUSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent:
    """An Event, for people who look at an object. Each occurrence of a reason is recorded once."""

    target: Target
    about: ObjectMeta
    warning: bool
    reason: str
    action: str
    note: str
    occurrence: str
    """Never with a number that changes, such as a count: each would be an Event of its own."""
    policy: PolicyReference | None = None
    """On a claim: the policy by which it came to this, which gets one Event for all claims together."""


@dataclass(frozen=True, slots=True)
class ReplaceSpec:
    """Write a NodeSharing's spec over the version that the decision was made on."""

    before: NodeSharing
    spec: NodeSharingSpec
    notices: tuple[RecordEvent, ...] = ()
    """Recorded once it is written."""

    target: ClassVar = Target.NODE_SHARING
    stage: ClassVar = Stage.NODES


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write a policy's status over the version that the decision was made on."""

    before: SharingPolicy
    status: SharingPolicyStatus

    target: ClassVar = Target.SHARING_POLICY
    stage: ClassVar = Stage.STATUSES


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


Intent = ReplaceSpec | PatchStatus | Create | Patch | Delete


def decided_on(intent: Intent) -> ObjectMeta | None:
    """The object that the decision was made on; None of what is to be created."""
    match intent:
        case Create():
            return None
        case ReplaceSpec(before=before) | PatchStatus(before=before):
            return before.metadata
        case Patch(before=metadata) | Delete(before=metadata):
            return metadata
