"""How amounts, lists, times and holders are written."""

from collections.abc import Iterable, Sequence
from typing import Final

from gpusharing.core import timestamps
from gpusharing.core.quantities import billionths, from_billionths
from gpusharing.core.text import SHOWN, counted, listed
from gpusharing.explaining import lean

_UNITS: Final = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_BILLION: Final = 10**9
ONE: Final = _BILLION
"""As amounts have it."""
SHARES: Final = "shares"
_COUNTED: Final = frozenset({SHARES, "threads"})


def amount(of: int) -> str:
    """As people write it: 20Gi, 25, 500m."""
    whole, rest = divmod(of, _BILLION)
    if rest == 0 and whole:
        for suffix, unit in _UNITS:
            if whole % unit == 0:
                return f"{whole // unit}{suffix}"
    return from_billionths(of)


def of_capacity(amount_: int, name: str) -> str:
    """60Gi of memory, 2 shares, 50 threads."""
    text = amount(amount_)
    if name not in _COUNTED:
        return f"{text} of {name}"
    return f"{text} {name.removesuffix('s') if amount_ == ONE else name}"


def quantity(text: str) -> str:
    """Of the API: 8589934592 is 8Gi."""
    try:
        return amount(billionths(text))
    except ValueError:
        return text


def mebibytes(count: int) -> str:
    return amount(count * 2**20 * _BILLION)


def devices(count: int) -> str:
    return counted(count, "device")


def are(count: int, noun: str = "device") -> str:
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"


def some(names: Iterable[str]) -> str:
    """The first few, with the number of the others."""
    return listed(list(names))


def age(since: str, now: str) -> str:
    """Such as "2 h"; empty if nobody knows."""
    try:
        seconds = timestamps.seconds(now) - timestamps.seconds(since)
    except ValueError:
        return ""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{max(seconds, 0)} s"


def holders(claims: Sequence[lean.Claim], total: int, now: str) -> str:
    """Of `total` claims, of which some are known by name: who, and since when. The longest first."""
    named = sorted((one for one in claims if one.metadata.name), key=lambda claim: (_since(claim) or "~", claim.key))
    parts = [_holder(claim, now) for claim in named[:SHOWN]]
    rest = total - len(parts)
    if not parts:
        return counted(total, "claim")
    return ", ".join(parts) + (f" and {counted(rest, 'other claim')}" if rest > 0 else "")


def _since(claim: lean.Claim) -> str:
    allocation = claim.status.allocation
    return (allocation.allocation_timestamp if allocation else None) or ""


def _holder(claim: lean.Claim, now: str) -> str:
    namespace, name = claim.key
    pods = [one.name for one in claim.status.reserved_for or () if one.resource == "pods"]
    text = f"pod {namespace}/{pods[0]}" if pods else f"claim {namespace}/{name}"
    if len(pods) > 1:
        text += f" and {len(pods) - 1} more"
    held = age(_since(claim), now)
    return f"{text} (for {held})" if held else text


def nodes(count: int) -> str:
    return counted(count, "node")
