"""`in`."""

from typing import Any

from gpusharing.cel.runtime import maps
from gpusharing.cel.runtime.equality import includes
from gpusharing.cel.runtime.faults import no_such_overload
from gpusharing.cel.runtime.keys import DoubleKey, UintKey, key_of
from gpusharing.cel.values.numbers import Uint

_SIMPLE = (bool, int, Uint, float, str)


def is_in(value: Any, container: Any) -> bool:
    if isinstance(container, list):
        return includes(container, value)
    if isinstance(container, dict):
        return maps.contains(container, value)
    return no_such_overload()


def is_member(value: Any, members: frozenset[Any]) -> bool:
    """Whether the value is in a list of constants, for which a value that no set can hold is one error too many."""
    return key_of(value) in members


def members(constants: list[Any]) -> frozenset[Any] | None:
    """The list as a set, if all of it are simple. A number is there in all three types that can hold it."""
    if not all(type(constant) in _SIMPLE for constant in constants):
        return None
    return frozenset(key for constant in constants for key in _keys(constant))


def _keys(constant: Any) -> list[Any]:
    keys = [key_of(constant)]
    kind = type(constant)
    if kind is float:
        if constant.is_integer():
            whole = int(constant)
            if -_TWO_TO_63 < whole < _TWO_TO_63:
                keys.append(whole)
            if 0 <= whole < 2 * _TWO_TO_63:
                keys.append(UintKey(whole))
    elif kind is int:
        keys.append(DoubleKey(constant))
        if constant >= 0:
            keys.append(UintKey(constant))
    elif kind is Uint:
        keys.append(DoubleKey(constant))
        if constant < _TWO_TO_63:
            keys.append(int(constant))
    return keys


_TWO_TO_63 = 1 << 63
