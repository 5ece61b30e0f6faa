"""How changes of a policy are applied."""

from enum import StrEnum

from gpusharing.api.base import ApiModel
from gpusharing.api.sharing.amounts import CountOrPercentage


class Disruption(StrEnum):
    """What happens to workloads that use a GPU in a mode that is no longer offered."""

    WAIT_FOR_IDLE = "WaitForIdle"
    """They keep it until they end. No new claim takes the GPU."""
    EVICT = "Evict"
    """Their pods are evicted, on a few nodes at a time."""
    NEVER = "Never"
    """The GPU stays unchanged, also for new claims, until it is idle."""


class RolloutMode(StrEnum):
    APPLY = "Apply"
    PLAN = "Plan"
    """Only status.plan is written. GPUs stay unchanged."""


class Rollout(ApiModel):
    disruption: Disruption = Disruption.WAIT_FOR_IDLE
    """What happens to workloads that use a GPU in a mode that is no longer offered. WaitForIdle: they keep it until
    they end, and no new claim takes the GPU. Evict: their pods are evicted. Never: the GPU stays unchanged, also for
    new claims, until it is idle. Default: WaitForIdle."""
    max_unavailable: CountOrPercentage = 1
    """The most nodes on which pods are evicted, or GPUs are repartitioned or reset, at the same time: a number (2) or a
    percentage of the selected nodes ("10%", rounded down, at least 1). Failing nodes count too. Default: 1."""
    mode: RolloutMode = RolloutMode.APPLY
    """Apply: changes are applied. Plan: the operator only writes status.plan, which shows what would change; GPUs stay
    unchanged. Default: Apply."""
    paused: bool = False
    """If true, edits of this policy are not applied, and GPUs stay unchanged. Default: false."""
