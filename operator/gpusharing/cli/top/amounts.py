"""Amounts in few characters."""

from typing import Final

_GIB: Final = 1024
_MANY: Final = 10_000
"""GiB."""


def gibibytes(mebibytes: int) -> str:
    """Without the unit: 80, 4.8, 0.2."""
    amount = mebibytes / _GIB
    return f"{amount:.0f}" if amount >= 10 or mebibytes % _GIB == 0 else f"{amount:.1f}"


def memory(mebibytes: int) -> str:
    """Of a fleet in Ti."""
    return f"{gibibytes(mebibytes)}Gi" if mebibytes < _MANY * _GIB else f"{gibibytes(mebibytes // _GIB)}Ti"


def percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.0%}"


def gpus(ratio: float) -> str:
    """A number of GPUs: 3, 2.5."""
    return f"{ratio:.1f}".removesuffix(".0")
