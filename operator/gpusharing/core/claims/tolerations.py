"""Who stays although a taint is to drive them away: what a claim tolerates was written into its allocation."""

from typing import Final

from gpusharing.api.dra import AllocationResult

_EFFECT: Final = "NoExecute"


def tolerates(result: AllocationResult, taint: str) -> bool:
    """For good: who tolerates it for a while is evicted after that. `taint` is the key of one without a value."""
    return any(
        toleration.get("key", "") in {"", taint}
        and (toleration.get("operator") == "Exists" or not toleration.get("value"))
        and toleration.get("effect", "") in {"", _EFFECT}
        and toleration.get("tolerationSeconds") is None
        for toleration in result.tolerations
    )
