"""Amounts in few characters."""

from typing import Final

_GIB: Final = 1024


def gibibytes(mebibytes: int) -> str:
    """Without the unit: 80, 4.8, 0.2."""
    amount = mebibytes / _GIB
    return f"{amount:.0f}" if amount >= 10 or mebibytes % _GIB == 0 else f"{amount:.1f}"


def memory(mebibytes: int) -> str:
    return f"{gibibytes(mebibytes)}Gi"


def percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.0%}"


def gpus(ratio: float) -> str:
    """A number of GPUs: 3, 2.5."""
    return f"{ratio:.1f}".removesuffix(".0")
