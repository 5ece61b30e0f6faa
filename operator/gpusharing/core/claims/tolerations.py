"""Who stays although a taint is to drive them away: what a claim tolerates was written into its allocation."""

from typing import Final

from gpusharing.api import names
from gpusharing.api.dra import AllocationResult, Toleration

_EFFECT: Final = "NoExecute"


def tolerates(result: AllocationResult, taint: str) -> bool:
    """For good: who tolerates it for a while is evicted after that. `taint` is the key of one without a value."""
    return any(toleration.key in {"", taint} for toleration in lasting(result))


def lasting(result: AllocationResult) -> tuple[Toleration, ...]:
    """Those of taints of ours, for good."""
    return tuple(
        toleration
        for toleration in result.tolerations
        if toleration.key in {"", names.DRAINING, names.CONFLICT_TAINT}
        and (toleration.operator == "Exists" or not toleration.value)
        and toleration.effect in {"", _EFFECT}
        and toleration.toleration_seconds is None
    )
