"""Maps. Those of an expression are plain dicts whose keys `keys.key_of` made; a device brings maps of its own kinds."""

from collections.abc import Iterator
from typing import Any, Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime.faults import no_such_key
from gpusharing.cel.runtime.keys import UintKey, key_of, value_of
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional


class DeviceMap(dict[str, Any]):
    """A device's map: its keys are strings, and nothing else is ever found in it."""

    __slots__ = ()


class AttributeMap(DeviceMap):
    """A domain's attributes."""

    __slots__ = ()

    def __missing__(self, key: str) -> Any:
        raise no_such_key(key)


class CapacityMap(AttributeMap):
    """A domain's capacities."""

    __slots__ = ()


NOTHING: Final = AttributeMap()


class DomainMap(DeviceMap):
    """Whoever looks for a domain finds one, if only an empty one. `in` and iteration know only those that exist."""

    __slots__ = ()

    def __missing__(self, key: str) -> AttributeMap:
        return NOTHING


class _Missing:
    __slots__ = ()


MISSING: Final = _Missing()

_LARGEST_INT: Final = (1 << 63) - 1
_SMALLEST_INT: Final = -(1 << 63)
_LARGEST_UINT: Final = (1 << 64) - 1


def find(mapping: dict[Any, Any], key: Any) -> Any:
    """The value, or MISSING."""
    kind = type(mapping)
    if kind is dict:
        return _find(mapping, key)
    if kind is CapacityMap:
        key = _content(key)
    if type(key) is str:
        value = mapping.get(key, MISSING)
        if value is not MISSING:
            return value
    return NOTHING if kind is DomainMap else MISSING


def contains(mapping: dict[Any, Any], key: Any) -> bool:
    if type(mapping) is DomainMap:
        return type(key) is str and key in mapping
    return find(mapping, key) is not MISSING


def get(mapping: dict[Any, Any], key: Any) -> Any:
    value = find(mapping, key)
    if value is MISSING:
        raise no_such_key(key)
    return value


def keys(mapping: dict[Any, Any]) -> Iterator[Any]:
    return iter(mapping) if isinstance(mapping, DeviceMap) else map(value_of, mapping)


def items(mapping: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    if isinstance(mapping, DeviceMap):
        return iter(mapping.items())
    return ((value_of(key), value) for key, value in mapping.items())


def insert(mapping: dict[Any, Any], key: Any, value: Any) -> None:
    """Numbers that are equal are one key, whatever their types."""
    if _find(mapping, key) is not MISSING:
        raise EvaluationError(f"insert failed: key {key} already exists")
    mapping[key_of(key)] = value


def insert_all(mapping: dict[Any, Any], entries: Any) -> None:
    if not isinstance(entries, dict):
        raise EvaluationError("no such overload: the entries of a map must be a map")
    for key, value in items(entries):
        insert(mapping, key, value)


def _find(mapping: dict[Any, Any], key: Any) -> Any:
    # What cannot be a key does no harm in an empty map.
    if not mapping:
        return MISSING
    value = mapping.get(key_of(key), MISSING)
    if value is not MISSING:
        return value
    match key:
        case bool():
            return MISSING
        case Uint():
            return mapping.get(int(key), MISSING) if key <= _LARGEST_INT else MISSING
        case int():
            return mapping.get(UintKey(key), MISSING) if key >= 0 else MISSING
        case float() if key.is_integer():
            return _find_integer(mapping, int(key))
    return MISSING


def _find_integer(mapping: dict[Any, Any], key: int) -> Any:
    # The smallest integer is out of a double's reach in cel-go.
    value = mapping.get(key, MISSING) if _SMALLEST_INT < key <= _LARGEST_INT else MISSING
    if value is MISSING and 0 <= key <= _LARGEST_UINT:
        return mapping.get(UintKey(key), MISSING)
    return value


def _content(key: Any) -> Any:
    """To a map of capacities an optional string is as good as a string."""
    while type(key) is Optional and key is not NONE:
        key = key.value
    return key
