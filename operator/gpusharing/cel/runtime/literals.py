"""Lists and maps that an expression writes out, with optional parts or unusual keys."""

from typing import Any

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime.keys import key_of
from gpusharing.cel.values.optional import NONE, Optional


def item(value: Any) -> tuple[Any, ...]:
    """What `?value` puts into a list."""
    return () if _checked(value) is NONE else (value.value,)


def entry(key: Any, value: Any) -> tuple[Any, Any]:
    return key_of(key), value


def entries(are_optional: list[bool], pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """A map in which the last of equal keys counts, and an absent optional value takes its key away."""
    mapping: dict[Any, Any] = {}
    for is_optional, (key, value) in zip(are_optional, pairs, strict=True):
        if not is_optional:
            mapping[key] = value
        elif _checked(value) is NONE:
            mapping.pop(key, None)
        else:
            mapping[key] = value.value
    return mapping


def _checked(value: Any) -> Any:
    if type(value) is not Optional:
        raise EvaluationError(f"cannot initialize optional element from non-optional value {value}")
    return value
