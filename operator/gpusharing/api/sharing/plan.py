"""What a policy would change that is a plan."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpusharing.api.base import ApiModel


class Effect(StrEnum):
    """What a change of a GPU means to those who hold it."""

    NONE = "None"
    """Nobody notices."""
    CLOSES_FIRST = "ClosesFirst"
    """Nobody holds it. Nobody new gets it until what was offered to others has been withdrawn."""
    CUT_ANEW = "CutAnew"
    """Nobody is in the way. It is cut into other MIG instances, or its MIG mode is switched, which resets it."""
    WAITS = "Waits"
    """Claims are in the way. They stay as long as they like, and nobody new joins them."""
    EVICTS = "Evicts"
    """Claims are in the way, and their pods are evicted."""
    KEPT_UNTIL_IDLE = "KeptUntilIdle"
    """Claims are in the way, so it stays as it is, also for new ones."""


class PlannedGpu(ApiModel):
    uuid: str
    """The GPU."""
    before: Annotated[str | None, Field(alias="from")] = None
    """The policy that has it now. Absent: none."""
    to: str | None = None
    """The policy that would get it. Absent: none."""
    effect: Effect
    """What that means to those who hold it."""
    claims: tuple[str, ...] = ()
    """Claims in the way, by namespace and name; not more than ten."""


class PlannedNode(ApiModel):
    node: str
    """Its name."""
    gpus: tuple[PlannedGpu, ...]
    """Those that would change."""


class PlanTotals(ApiModel):
    nodes: int = 0
    """Nodes on which anything would change."""
    gpus: int = 0
    """GPUs that would change."""
    claims: int = 0
    """Claims in the way."""
    evicted: int = 0
    """Those of them whose pods would be evicted."""
    cut_anew: int = 0
    """GPUs that would be cut anew or reset at once."""


class Plan(ApiModel):
    """What would be done if rollout.mode were Apply."""

    totals: PlanTotals
    """On all nodes."""
    nodes: tuple[PlannedNode, ...] = ()
    """The first of them by name."""
