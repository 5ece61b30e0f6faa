"""What has become of a policy."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import Conditions
from gpusharing.api.sharing.plan import Plan


class NodeCount(ApiModel):
    selected: int
    """Nodes with GPUs that the policy selects."""
    ready: int
    """Those of them on which everything that the policy won is in force."""
    changing: int = 0
    """Those on which work is being evicted, or GPUs are being cut anew."""
    held_back: int = 0
    """Those that stay as they were until others have changed, or until their GPUs are idle."""
    failing: int = 0
    """Those with GPUs of this policy that cannot be used, or not in this way."""


class GpuCount(ApiModel):
    won: int
    """GPUs that are shared as this policy says."""
    lost: int
    """GPUs that it wanted and another policy won."""


class ClientCount(ApiModel):
    current: int
    """Claims that hold a device of a GPU of this policy."""
    max: int
    """Claims that its GPUs can hold at the same time, when they are shared as widely as it allows."""


class LagReason(StrEnum):
    """The weightiest first: a node is named with one reason."""

    UNDECIDED = "Undecided"
    """The operator cannot decide on the node: its configuration stays as it was."""
    FAILING = "Failing"
    """A GPU cannot be used, or cannot be made what the policy says."""
    HELD_BACK = "HeldBack"
    """Everything stays as it was until other nodes have changed (rollout.maxUnavailable)."""
    KEPT_UNTIL_IDLE = "KeptUntilIdle"
    """GPUs in use stay as they were (rollout.disruption: Never)."""
    NOT_ACTED = "NotActed"
    """The node's agent has not reported that it does as it is told."""
    EVICTING = "Evicting"
    """Pods that are in the way are being evicted."""
    BEING_CUT = "BeingCut"
    """GPUs are being cut anew, or reset."""
    IN_USE = "InUse"
    """Claims that are in the way stay as long as they like."""
    WITHDRAWING = "Withdrawing"
    """What was offered before is being withdrawn."""


class LaggingNode(ApiModel):
    node: str
    """Its name."""
    reason: LagReason
    """Why not everything that the policy won there is in force, in a word."""
    message: str
    """The same in a sentence."""


class LastReady(ApiModel):
    generation: int
    """The policy's generation at that time."""
    spec: Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]
    """What was wholly in force."""


class SharingPolicyStatus(ApiModel):
    observed_generation: int | None = None
    """The generation of the spec that this status speaks of."""
    conditions: Conditions = ()
    """Accepted, Ready, Progressing, Conflicted and Degraded."""
    nodes: NodeCount | None = None
    """How many nodes it selects, and on how many it is in force."""
    gpus: GpuCount | None = None
    """How many GPUs it won and lost."""
    clients: ClientCount | None = None
    """How many claims use its GPUs."""
    lagging: tuple[LaggingNode, ...] = ()
    """Nodes on which not everything is in force; the first ten by name."""
    plan: Plan | None = None
    """What would change, where rollout.mode is Plan."""
    last_ready: LastReady | None = None
    """The last spec that was in force on every node, to go back to."""
