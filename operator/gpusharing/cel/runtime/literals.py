"""Lists and maps that an expression writes out, with optional parts or unusual keys."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime.keys import key_of
from gpusharing.cel.values.optional import NONE, Optional


def item(value: Any) -> tuple[Any, ...]:
    """What `?value` puts into a list."""
    return () if _checked(value) is NONE else (value.value,)


Entry: TypeAlias = tuple[Any, Any] | tuple[Any]
"""Of a map: a key and its value. A key alone has none any more."""


def entry(key: Any, value: Any) -> Entry:
    return key_of(key), value


def optional_entry(key: Any, value: Any) -> Entry:
    """What `?key: value` puts into a map."""
    return (key_of(key),) if _checked(value) is NONE else (key_of(key), value.value)


def entries(all_entries: Iterable[Entry]) -> dict[Any, Any]:
    """A map in which the last of equal keys counts."""
    mapping: dict[Any, Any] = {}
    for key, *value in all_entries:
        if value:
            (mapping[key],) = value
        else:
            mapping.pop(key, None)
    return mapping


def _checked(value: Any) -> Any:
    if type(value) is not Optional:
        raise EvaluationError(f"cannot initialize optional element from non-optional value {value}")
    return value
