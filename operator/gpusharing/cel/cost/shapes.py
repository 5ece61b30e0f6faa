"""How large a value can be at most, inside and out."""

from collections.abc import Iterable
from functools import reduce
from typing import Final

_DEEPEST: Final = 5
ENDLESS_SIZE: Final = 2**63
LONGEST_IN_UTF8: Final = 4


class Shape:
    """`length`: characters, bytes, items or entries. `items`: what is in it. `keys`: the length of a map's keys."""

    __slots__ = ("depth", "items", "keys", "length", "volume")

    def __init__(self, length: int, items: "Shape | None" = None, keys: int = 0, volume: int | None = None) -> None:
        self.length = length
        self.items = items
        self.keys = keys
        self.depth: int = items.depth + 1 if items else 0
        if volume is None:
            volume = max(length, 1) * (max(items.volume, 1) + keys if items else 1)
        self.volume: int = min(volume, ENDLESS_SIZE)
        """Of all that is inside, in bytes of text and in values. Shared parts count each time."""

    @property
    def is_endless(self) -> bool:
        return self.length >= ENDLESS_SIZE

    @property
    def content(self) -> "Shape":
        """What an index leads to."""
        if self.is_endless:
            return ENDLESS
        return self.items or SCALAR

    def union(self, other: "Shape") -> "Shape":
        if self is other:
            return self
        return shape(max(self.length, other.length), _union(self.items, other.items), max(self.keys, other.keys))


def shape(length: int, items: Shape | None = None, keys: int = 0) -> Shape:
    """ENDLESS if it is too large or too deep to be followed."""
    if length >= ENDLESS_SIZE or (items is not None and (items.is_endless or items.depth >= _DEEPEST)):
        return ENDLESS
    return Shape(length, items, keys)


def union(shapes: Iterable[Shape]) -> Shape:
    return reduce(Shape.union, shapes)


def _union(one: Shape | None, other: Shape | None) -> Shape | None:
    if one is None or other is None:
        return one or other
    return one.union(other)


ENDLESS: Final = Shape(ENDLESS_SIZE)
SCALAR: Final = Shape(1)
