"""Ranges of sizes and of costs, in cel-go's arithmetic: 64 bits, and what does not fit is as much as fits."""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

MOST: Final = 2**64 - 1


class Range(NamedTuple):
    min: int
    max: int

    def plus(self, other: "Range") -> "Range":
        return Range(min(self.min + other.min, MOST), min(self.max + other.max, MOST))

    def times(self, other: "Range") -> "Range":
        return Range(min(self.min * other.min, MOST), min(self.max * other.max, MOST))

    def scaled(self, factor: float) -> "Range":
        """The product, rounded up."""
        return Range(_scaled(self.min, factor), _scaled(self.max, factor))

    def union(self, other: "Range") -> "Range":
        return Range(min(self.min, other.min), max(self.max, other.max))


def total(ranges: Iterable[Range]) -> Range:
    low = high = 0
    for each in ranges:
        low += each.min
        high += each.max
    return Range(min(low, MOST), min(high, MOST))


def fixed(value: int) -> Range:
    return Range(value, value)


UNKNOWN: Final = Range(0, MOST)
NOTHING: Final = fixed(0)
ONE: Final = fixed(1)
EMPTY: Final = Range(MOST, 0)
"""The union of no ranges."""


def _scaled(value: int, factor: float) -> int:
    product = float(value) * factor
    return math.ceil(product) if product < 2.0**64 else MOST
