"""The conditions of a policy, and their reasons: closed lists, because programs depend on them."""

from enum import StrEnum
from typing import NamedTuple


class ConditionType(StrEnum):
    ACCEPTED = "Accepted"
    READY = "Ready"
    PROGRESSING = "Progressing"
    CONFLICTED = "Conflicted"
    DEGRADED = "Degraded"


class AcceptedReason(StrEnum):
    ACCEPTED = "Accepted"
    INVALID_SELECTOR = "InvalidSelector"
    INTERNAL_ERROR = "InternalError"
    """The operator cannot decide on it."""


class ReadyReason(StrEnum):
    READY = "Ready"
    NOT_ACCEPTED = "NotAccepted"
    PAUSED = "Paused"
    PLAN = "Plan"
    NO_MATCHING_NODES = "NoMatchingNodes"
    NO_MATCHING_GPUS = "NoMatchingGpus"
    LOST_ALL_GPUS = "LostAllGpus"
    NOTHING_OFFERED = "NothingOffered"
    WAITING_FOR_GUARDS = "WaitingForGuards"
    WAITING_FOR_NODES = "WaitingForNodes"


class ProgressingReason(StrEnum):
    COMPLETE = "Complete"
    WAITING = "Waiting"
    """The rollout waits for claims to be released, or for agents."""
    ROLLING_OUT = "RollingOut"
    """Pods are evicted, or GPUs are repartitioned or reset, on some nodes; other nodes follow."""
    PAUSED = "Paused"
    PLAN = "Plan"
    STOPPED = "Stopped"
    """Failing nodes use up rollout.maxUnavailable, or the policy is not accepted."""


class ConflictedReason(StrEnum):
    NO_CONFLICT = "NoConflict"
    LOST_GPUS = "LostGpus"


class DegradedReason(StrEnum):
    """The condition has the first reason of this list that applies; its message names all of them."""

    NOT_DEGRADED = "NotDegraded"
    INTERNAL_ERROR = "InternalError"
    """The operator cannot decide on a node, or on the policy itself. Everything stays unchanged."""
    GUARD_MISSING = "GuardMissing"
    GUARDS_FULL = "GuardsFull"
    DEVICE_CLASS_EXISTS = "DeviceClassExists"
    EXTENDED_RESOURCE_IN_USE = "ExtendedResourceInUse"
    RESOURCE_QUOTA_EXISTS = "ResourceQuotaExists"
    RESOURCE_CLAIM_TEMPLATE_EXISTS = "ResourceClaimTemplateExists"
    NODES_FAILING = "NodesFailing"
    EVICTION_TOLERATED = "EvictionTolerated"
    SELECTOR_ERROR = "SelectorError"
    MEMORY_TOO_SMALL = "MemoryTooSmall"
    UNKNOWN_MIG_PROFILE = "UnknownMigProfile"
    LAYOUT_DOES_NOT_FIT = "LayoutDoesNotFit"
    DEFAULT_EXCEEDS_ALLOWANCE = "DefaultExceedsAllowance"
    MEMORY_WALL_UNSUPPORTED = "MemoryWallUnsupported"
    SLOW_SCHEDULER = "SlowScheduler"


class Complaint(NamedTuple):
    """Something that degrades a policy, whatever its nodes do."""

    reason: DegradedReason
    message: str
    """Says what to do, too."""
