"""The status of a SharingPolicy."""

from typing import Annotated, Any

from pydantic import Field

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import Conditions
from gpusharing.api.reasons import ExplainedReason
from gpusharing.api.sharing.plan import Plan


class NodeCount(ApiModel):
    selected: int
    """Nodes with GPUs that this policy selects."""
    ready: int
    """Selected nodes on which this policy is in force on every GPU that it won."""
    changing: int = 0
    """Selected nodes on which pods are being evicted, or GPUs are being repartitioned or reset."""
    held_back: int = 0
    """Selected nodes that stay unchanged until other nodes have changed (rollout.maxUnavailable)."""
    failing: int = 0
    """Selected nodes with a GPU of this policy that is unhealthy, or on which a setting failed."""


class GpuCount(ApiModel):
    won: int
    """GPUs that this policy won."""
    lost: int
    """GPUs that this policy selects and another policy won."""


class ClientCount(ApiModel):
    current: int
    """Devices on GPUs of this policy that are allocated to claims."""
    max: int
    """The most claims that can use the GPUs of this policy at the same time."""


class LagReason(ExplainedReason):
    """Each node has one reason: the first of this list that applies."""

    UNDECIDED = (
        "Undecided",
        "The operator cannot decide on the node, because of a bug. The node stays unchanged.",
        "Report it with the message.",
    )
    NODE_NOT_READY = (
        "NodeNotReady",
        "Kubernetes reports the node as NotReady, so its agent cannot act. It counts towards `rollout.maxUnavailable`.",
        "Repair the node, or delete its Node object.",
    )
    FAILING = (
        "Failing",
        "A GPU is unhealthy, or a setting of this policy failed on it.",
        "The message has what the node reports.",
        "health.md",
    )
    HELD_BACK = (
        "HeldBack",
        "The node stays unchanged until other nodes have changed (`rollout.maxUnavailable`).",
        "Wait.",
    )
    UNCHANGED_UNTIL_IDLE = (
        "UnchangedUntilIdle",
        "GPUs in use stay unchanged until they are idle (`rollout.disruption: Never`).",
        "Wait, or end the pods that use them.",
    )
    WAITING_FOR_AGENT = (
        "WaitingForAgent",
        "The agent of the node has not reported this change as done.",
        "If it lasts, see the agent's pod and log on the node.",
    )
    EVICTING = "Evicting", "The change is blocked by claims, and their pods are being evicted.", "Wait."
    REPARTITIONING = (
        "Repartitioning",
        "MIG instances of GPUs are being created or destroyed, or GPUs are being reset.",
        "Wait.",
    )
    IN_USE = (
        "InUse",
        "The change is blocked by claims, and waits until they are released.",
        "Wait, or end the pods that use them.",
    )
    WITHDRAWING = (
        "Withdrawing",
        (
            "Devices that are no longer offered are being withdrawn. The message says since when and until when. That"
            " takes less than 20 s as a rule, and an hour without the closing guard."
        ),
        "Wait.",
        "tenants.md#when-gpus-change-hands",
    )


class LaggingNode(ApiModel):
    node: str
    """The name of the node."""
    reason: LagReason
    """Why this policy is not in force on the node, as one word."""
    message: str
    """Why this policy is not in force on the node, as a sentence."""


class LastReady(ApiModel):
    generation: int
    """The generation of the policy with this spec."""
    spec: Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]
    """The spec that was in force on every selected node."""


class SharingPolicyStatus(ApiModel):
    observed_generation: int | None = None
    """The generation of the spec that this status describes."""
    conditions: Conditions = ()
    """Conditions of this policy: Accepted, Ready, Progressing, Conflicted and Degraded."""
    nodes: NodeCount | None = None
    """Number of nodes, by their state."""
    gpus: GpuCount | None = None
    """Number of GPUs that this policy won and lost."""
    clients: ClientCount | None = None
    """Number of claims on the GPUs of this policy: now, and at most."""
    lagging: tuple[LaggingNode, ...] = ()
    """Nodes on which this policy is not in force yet, with the reason. The first ten, sorted by name."""
    plan: Plan | None = None
    """What this policy would change. Only with rollout.mode: Plan."""
    last_ready: LastReady | None = None
    """The last spec that was in force on every selected node. Apply it again to roll back."""
