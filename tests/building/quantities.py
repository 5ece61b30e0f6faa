"""Quantities as the API server writes them: what it stores is not what it was given."""

from collections.abc import Mapping
from typing import Any

# `tests/cluster/tenants/test_upkeep.py` compares with a real one.
STORED = {
    0: "0",
    1: "1",
    999: "999",
    1000: "1k",
    1001: "1001",
    1024: "1024",
    1500: "1500",
    16_000: "16k",
    100_000: "100k",
    1_000_000: "1M",
    1_001_000: "1001k",
    2**31 - 1: "2147483647",
    2**31: "2147483648",
    10**12: "1T",
    10**15: "1P",
    2**53: "9007199254740992",
}

_SUFFIXES = ("", "k", "M", "G", "T", "P")


def stored(amount: int) -> str:
    power = 0
    while amount and amount % 1000 == 0 and power + 1 < len(_SUFFIXES):
        amount, power = amount // 1000, power + 1
    return f"{amount}{_SUFFIXES[power]}"


def stored_quota(body: Mapping[str, Any]) -> dict[str, Any]:
    """A ResourceQuota, or a patch of one, with decimal amounts."""
    hard = body.get("spec", {}).get("hard") or {}
    written = {name: None if amount is None else stored(int(amount)) for name, amount in hard.items()}
    return {**body, "spec": {**body.get("spec", {}), "hard": written}}
