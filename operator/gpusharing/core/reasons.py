"""The conditions of a policy, and their reasons: closed lists, because programs depend on them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from gpusharing.api.reasons import ConditionReason


class ConditionType(StrEnum):
    ACCEPTED = "Accepted"
    READY = "Ready"
    PROGRESSING = "Progressing"
    CONFLICTED = "Conflicted"
    DEGRADED = "Degraded"


_REPORT: Final = "Report it with the message."
_RENAME: Final = "Rename or delete it."


class AcceptedReason(ConditionReason):
    ACCEPTED = "Accepted", True, "The operator can act on the policy."
    INVALID_SELECTOR = (
        "InvalidSelector",
        False,
        (
            "A selector is not valid CEL, or may cost more than Kubernetes allows, or the selectors together may cost"
            " too much."
        ),
        "Correct the expression that the message points to.",
        "cel.md#limits",
    )
    INTERNAL_ERROR = (
        "InternalError",
        False,
        "The operator cannot decide on the policy, because of a bug. Its GPUs stay unchanged.",
        _REPORT,
    )
    UNREADABLE = (
        "Unreadable",
        False,
        (
            "The policy was written for another version of the operator. Nothing is written to it: only metrics have "
            "this reason."
        ),
        "The operator's log says what it cannot read.",
    )


class ReadyReason(ConditionReason):
    READY = "Ready", True, "The policy is in force on every node that it selects."
    NOT_ACCEPTED = "NotAccepted", False, "The policy is not accepted.", "See condition `Accepted`."
    PAUSED = (
        "Paused",
        False,
        "`rollout.paused` is true, and something would change.",
        "Set `rollout.paused` to false.",
    )
    PLAN = (
        "Plan",
        False,
        "`rollout.mode` is `Plan`, and something would change.",
        "Read `status.plan`, then set `rollout.mode` to `Apply`.",
        "policies.md#plan",
    )
    NO_MATCHING_NODES = (
        "NoMatchingNodes",
        False,
        "No node with an agent has the labels of `spec.nodes`.",
        "Label a node, or wait for its agent.",
    )
    NO_MATCHING_GPUS = (
        "NoMatchingGpus",
        False,
        "The selected nodes have no GPU that matches `spec.gpus.selectors`.",
        "Compare the selectors with `status.gpus[].attributes` of the NodeSharing.",
    )
    LOST_ALL_GPUS = (
        "LostAllGpus",
        False,
        "Other policies won every GPU that this policy selects.",
        "Compare priorities; condition `Conflicted` names the winners.",
        "policies.md#which-policy-wins-a-gpu",
    )
    NOTHING_OFFERED = (
        "NothingOffered",
        False,
        "None of the GPUs that the policy won can provide any of its offers.",
        "Condition `Degraded` says why for each offer. Correct the offers, or select other GPUs.",
    )
    WAITING_FOR_GUARDS = (
        "WaitingForGuards",
        False,
        "The admission policies do not hold for the policy's tenants on all API servers yet.",
        "Wait. If it stays, see condition `Degraded`.",
        "tenants.md#ready-is-true",
    )
    WAITING_FOR_NODES = (
        "WaitingForNodes",
        False,
        "The policy is not in force on some nodes yet.",
        "See `status.lagging`.",
    )


class ProgressingReason(ConditionReason):
    COMPLETE = "Complete", False, "No change is being applied."
    WAITING = (
        "Waiting",
        True,
        "The change waits for claims to be released, or for agents.",
        "Wait, or see `status.lagging`.",
    )
    ROLLING_OUT = (
        "RollingOut",
        True,
        "Pods are being evicted, or GPUs repartitioned or reset, on some nodes. Other nodes may follow.",
        "Wait.",
    )
    PAUSED = "Paused", False, "`rollout.paused` is true.", "Set `rollout.paused` to false."
    PLAN = (
        "Plan",
        False,
        "`rollout.mode` is `Plan`.",
        "Read `status.plan`, then set `rollout.mode` to `Apply`.",
        "policies.md#plan",
    )
    STOPPED = (
        "Stopped",
        False,
        "Failing nodes use up `rollout.maxUnavailable`, or the policy is not accepted.",
        "Repair the nodes, or correct the policy.",
        "policies.md#a-node-that-fails",
    )


class ConflictedReason(ConditionReason):
    NO_CONFLICT = "NoConflict", False, "No other policy won a GPU that this policy selects."
    LOST_GPUS = (
        "LostGpus",
        True,
        "Other policies won some GPUs that this policy selects.",
        "Compare priorities. The message names GPUs, winners and reasons.",
        "policies.md#which-policy-wins-a-gpu",
    )


class DegradedReason(ConditionReason):
    """The condition has the first reason of this list that applies; its message names all of them."""

    NOT_DEGRADED = "NotDegraded", False, "There is no problem."
    INTERNAL_ERROR = (
        "InternalError",
        True,
        (
            "The operator cannot decide on the policy, one of its offers or a node, because of a bug. Everything "
            "stays unchanged there."
        ),
        _REPORT,
    )
    GUARD_MISSING = (
        "GuardMissing",
        True,
        (
            "The admission policies that reserve GPUs for tenants, or their bindings, are missing or changed. The "
            "scheduler may allocate these GPUs to any namespace; agents still prepare them for tenants only, and no "
            "device classes are created."
        ),
        "Apply `manifests/base`.",
        "tenants.md#what-keeps-others-out",
    )
    GUARDS_FULL = (
        "GuardsFull",
        True,
        (
            "The admission policies have no room for `tenants` of this policy. No new claim gets its reserved GPUs, "
            "not even a tenant's."
        ),
        (
            "Use fewer or shorter requirements in `tenants.namespaces`, or raise `priority` above that of other "
            "policies with tenants."
        ),
        "tenants.md#room-in-the-guards",
    )
    DEVICE_CLASS_EXISTS = (
        "DeviceClassExists",
        True,
        "A device class with a name that this policy needs was created by somebody else. It is left unchanged.",
        "Rename it, or rename the policy.",
    )
    EXTENDED_RESOURCE_IN_USE = (
        "ExtendedResourceInUse",
        True,
        (
            "Another device class has the name in `classes.extendedResources`. Of two policies, the one that ranks "
            "higher gets it."
        ),
        (
            "Use another name, or raise `priority` above that of the other policy. Class gpu.nvidia.com has "
            "`nvidia.com/gpu`: to give it to a policy, install with the component `without-nvidia-com-gpu`, or with "
            "`extendedResource.nvidiaComGpu=false`."
        ),
    )
    RESOURCE_QUOTA_EXISTS = (
        "ResourceQuotaExists",
        True,
        "A ResourceQuota with the name that this policy needs was created by somebody else. It is left unchanged.",
        _RENAME,
    )
    RESOURCE_CLAIM_TEMPLATE_EXISTS = (
        "ResourceClaimTemplateExists",
        True,
        (
            "A ResourceClaimTemplate with a name that this policy needs was created by somebody else, or for another "
            "policy. It is left unchanged."
        ),
        f"{_RENAME} The operator looks for it again after ten seconds.",
        "tenants.md#templates-of-claims",
    )
    NODES_FAILING = (
        "NodesFailing",
        True,
        "GPUs of this policy are unhealthy, or a setting failed on them.",
        "The message has what the node reports.",
        "health.md",
    )
    EVICTION_TOLERATED = (
        "EvictionTolerated",
        True,
        (
            "`rollout.disruption` is `Evict`, and claims that block the change tolerate the taint without end. The "
            "change waits for them and counts for `rollout.maxUnavailable`."
        ),
        "Delete the pods of the claims that the message names.",
        "policies.md#evict",
    )
    SELECTOR_ERROR = (
        "SelectorError",
        True,
        "A selector fails on some GPUs. These GPUs stay unchanged.",
        "Test an attribute with `in` before you use it.",
        "cel.md",
    )
    MEMORY_TOO_SMALL = (
        "MemoryTooSmall",
        True,
        "An amount is more than a GPU has, or amounts contradict each other on a GPU.",
        "Select larger GPUs, or use percentages.",
    )
    UNKNOWN_MIG_PROFILE = (
        "UnknownMigProfile",
        True,
        "A GPU does not support a MIG profile.",
        "Use a profile of the list in the message.",
    )
    LAYOUT_DOES_NOT_FIT = (
        "LayoutDoesNotFit",
        True,
        "The MIG instances of the layout do not fit on a GPU.",
        "Leave out the instances that the message names.",
    )
    DEFAULT_EXCEEDS_ALLOWANCE = (
        "DefaultExceedsAllowance",
        True,
        "The default of an offer is more than `tenants.allow` lets a claim have.",
        "Raise the limit, or lower the default.",
    )
    MEMORY_WALL_UNSUPPORTED = (
        "MemoryWallUnsupported",
        True,
        "The driver of a GPU cannot limit the memory of containers, and the policy requires it.",
        "Update the driver, or set `memory.enforcement` to `Preferred`.",
        "memory-walls.md",
    )
    SLOW_SCHEDULER = (
        "SlowScheduler",
        True,
        "Kubernetes 1.36 schedules slowly on many nodes if one GPU offers several modes.",
        "Upgrade to 1.37, or offer one mode on each GPU.",
        "performance.md",
    )


REASONS: Final[Mapping[ConditionType, type[ConditionReason]]] = {
    ConditionType.ACCEPTED: AcceptedReason,
    ConditionType.READY: ReadyReason,
    ConditionType.PROGRESSING: ProgressingReason,
    ConditionType.CONFLICTED: ConflictedReason,
    ConditionType.DEGRADED: DegradedReason,
}


class Complaint(NamedTuple):
    """Something that degrades a policy, whatever its nodes do."""

    reason: DegradedReason
    message: str
    """Says what to do, too."""
