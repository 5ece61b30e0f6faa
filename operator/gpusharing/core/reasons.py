"""The conditions of a policy, and the reasons that they can have: closed lists, for programs build on them."""

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
    WAITING_FOR_GUARDS = "WaitingForGuards"
    WAITING_FOR_NODES = "WaitingForNodes"


class ProgressingReason(StrEnum):
    COMPLETE = "Complete"
    WAITING = "Waiting"
    """For claims that leave when they like, or for agents."""
    ROLLING_OUT = "RollingOut"
    """Pods are evicted or GPUs cut anew on some nodes, and others come after them."""
    PAUSED = "Paused"
    PLAN = "Plan"
    STOPPED = "Stopped"
    """As many nodes fail as may be unavailable at a time; or the policy is not accepted."""


class ConflictedReason(StrEnum):
    NO_CONFLICT = "NoConflict"
    LOST_GPUS = "LostGpus"


class DegradedReason(StrEnum):
    """The weightiest first: the message has all of them."""

    NOT_DEGRADED = "NotDegraded"
    INTERNAL_ERROR = "InternalError"
    """The operator cannot decide on a node, or on the policy itself. Everything stays as it was."""
    GUARD_MISSING = "GuardMissing"
    GUARDS_FULL = "GuardsFull"
    CLASS_NOT_OURS = "ClassNotOurs"
    EXTENDED_RESOURCE_TAKEN = "ExtendedResourceTaken"
    QUOTA_NOT_OURS = "QuotaNotOurs"
    NODES_FAILING = "NodesFailing"
    EVICTION_TOLERATED = "EvictionTolerated"
    SELECTOR_ERROR = "SelectorError"
    MEMORY_TOO_SMALL = "MemoryTooSmall"
    UNKNOWN_MIG_PROFILE = "UnknownMigProfile"
    LAYOUT_DOES_NOT_FIT = "LayoutDoesNotFit"
    ALLOWANCE_TOO_SMALL = "AllowanceTooSmall"
    MEMORY_WALL_UNSUPPORTED = "MemoryWallUnsupported"
    SLOW_SCHEDULER = "SlowScheduler"


class Complaint(NamedTuple):
    """Something that degrades a policy, whatever its nodes do."""

    reason: DegradedReason
    message: str
    """Says what to do, too."""
