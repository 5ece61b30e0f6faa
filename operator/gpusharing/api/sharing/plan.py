"""What a policy with rollout.mode Plan would change."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpusharing.api.base import ApiModel


class Effect(StrEnum):
    """What the change of a GPU does to the claims on it."""

    NONE = "None"
    """The change disturbs no claim."""
    CLOSES_FIRST = "ClosesFirst"
    """The GPU is idle. No claim can take it until the devices that were offered before are withdrawn."""
    REPARTITIONS = "Repartitions"
    """The GPU is idle. MIG instances are created or destroyed, or the MIG mode is switched, which resets the GPU."""
    WAITS = "Waits"
    """The change is blocked by claims. They stay until they are released, and no new claim takes the GPU."""
    EVICTS = "Evicts"
    """The change is blocked by claims, and their pods are evicted."""
    UNCHANGED_UNTIL_IDLE = "UnchangedUntilIdle"
    """The change is blocked by claims. The GPU stays unchanged, also for new claims, until it is idle."""


class PlannedGpu(ApiModel):
    uuid: str
    """The UUID of the GPU."""
    before: Annotated[str | None, Field(alias="from")] = None
    """The policy that has the GPU now. Absent: none."""
    to: str | None = None
    """The policy that would win the GPU. Absent: none."""
    effect: Effect
    """What the change does to the claims on the GPU. None: it disturbs no claim. ClosesFirst: the GPU is idle; no claim
    can take it until the devices that were offered before are withdrawn. Repartitions: the GPU is idle; MIG instances
    are created or destroyed, or the GPU is reset. Waits: claims stay until they are released. Evicts: pods are evicted.
    UnchangedUntilIdle: the GPU stays unchanged until it is idle."""
    claims: tuple[str, ...] = ()
    """Claims that block the change, as namespace/name. At most ten."""


class PlannedNode(ApiModel):
    node: str
    """The name of the node."""
    gpus: tuple[PlannedGpu, ...]
    """The GPUs of the node that would change."""


class PlanTotals(ApiModel):
    nodes: int = 0
    """Nodes with a GPU that would change."""
    gpus: int = 0
    """GPUs that would change."""
    claims: int = 0
    """Claims that block changes."""
    evicted: int = 0
    """Claims whose pods would be evicted."""
    repartitioned: int = 0
    """Idle GPUs that would be repartitioned or reset at once."""


class Plan(ApiModel):
    """What would change with rollout.mode: Apply."""

    totals: PlanTotals
    """The totals of all nodes."""
    nodes: tuple[PlannedNode, ...] = ()
    """The nodes that would change. The first 20, sorted by name."""
