"""Numbers that Python has no type for."""

import enum


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class BoolKey(enum.Enum):
    """true and false as keys of a map: as Python's bool they would be the keys 1 and 0."""

    FALSE = False
    TRUE = True
