"""How changes of a policy come into force."""

from enum import StrEnum

from gpusharing.api.base import ApiModel
from gpusharing.api.sharing.amounts import CountOrPercentage


class Disruption(StrEnum):
    """What becomes of those who hold a GPU in a way in which it is not offered any more."""

    WAIT_FOR_IDLE = "WaitForIdle"
    """They stay as long as they like, and nobody new joins them."""
    EVICT = "Evict"
    """Their pods are evicted, on a few nodes at a time."""
    NEVER = "Never"
    """The GPU goes on as it is, also for others, until nobody holds it."""


class RolloutMode(StrEnum):
    APPLY = "Apply"
    PLAN = "Plan"
    """What would be done is told in the status, and what was in force stays so."""


class Rollout(ApiModel):
    disruption: Disruption = Disruption.WAIT_FOR_IDLE
    """What becomes of running work that a change is in the way of: WaitForIdle, Evict or Never."""
    max_unavailable: CountOrPercentage = 1
    """Nodes on which work is evicted, or GPUs are cut anew, at the same time: a number, or a percentage of the nodes
    that the policy selects, rounded down, at least 1."""
    mode: RolloutMode = RolloutMode.APPLY
    """Apply, or Plan: then the status tells what would change, and nothing does."""
    paused: bool = False
    """Whether what is in force stays so for the time being, whatever this policy says."""
