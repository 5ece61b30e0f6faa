"""`value[key]`, `value.name`, `has()` and their optional forms, on values of any type."""

from typing import Any, Final, NamedTuple

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import maps
from gpusharing.cel.runtime.faults import no_such_key
from gpusharing.cel.runtime.maps import MISSING
from gpusharing.cel.runtime.optionals import Unreadable, reread_content
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional

KEY_TYPES: Final = frozenset((str, int, Uint, bool, float))
"""What may stand in square brackets: any key of a map, and for the rest an index of a list."""


_LIMIT: Final = 1 << 63


def index(value: Any, key: Any) -> Any:
    found = find(value, key)
    if found is MISSING:
        raise _missing(value, key)
    return found


def has(value: Any, key: Any) -> bool:
    return find(value, key) is not MISSING


def find(value: Any, key: Any) -> Any:
    """What the key leads to, or MISSING. MISSING leads nowhere, and neither do values without keys."""
    if value is MISSING:
        return MISSING
    if type(key) not in KEY_TYPES:
        raise EvaluationError(f"invalid qualifier type: {type(key).__name__}")
    if isinstance(value, dict):
        return maps.find(value, key)
    if isinstance(value, list):
        at = _position(key)
        return value[at] if 0 <= at < len(value) else MISSING
    if type(value) is Unreadable:
        raise EvaluationError(value.message)
    return MISSING


def optional(found: Any) -> Optional:
    return NONE if found is MISSING else Optional(found)


def entered(value: Any) -> Any:
    """Where a path begins that may be absent: in an optional value."""
    if type(value) is Optional:
        return MISSING if value is NONE else value.value
    return value


def entered_rereading(value: Any) -> Any:
    """The same up to Kubernetes 1.36."""
    if type(value) is Optional:
        return MISSING if value is NONE else reread_content(value.value)
    return value


def is_optional(value: Any) -> bool:
    return type(value) is Optional


def step(value: Any, key: Any, optionally: bool) -> Any:
    return find(value, key) if optionally else index(value, key)


class Step(NamedTuple):
    key: str | int | Uint | bool | float
    is_optional: bool


class Walk:
    """A path of constant steps from a value that may turn out to be optional: then all steps are."""

    __slots__ = ("_steps",)

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps

    def __call__(self, value: Any) -> Any:
        value, optionally = self._to_last_step(value)
        last = self._steps[-1]
        if optionally or last.is_optional:
            return optional(find(value, last.key))
        return index(value, last.key)

    def has(self, value: Any) -> bool:
        value, _ = self._to_last_step(value)
        return has(value, self._steps[-1].key)

    def _to_last_step(self, value: Any) -> tuple[Any, bool]:
        optionally = type(value) is Optional
        value = entered(value)
        for key, is_optional_step in self._steps[:-1]:
            optionally = optionally or is_optional_step
            value = step(value, key, optionally)
        return value, optionally


def _position(key: Any) -> int:
    kind = type(key)
    if kind is int:
        return int(key)
    if kind is Uint or (kind is float and key.is_integer()):
        position = int(key)
        if abs(position) < _LIMIT:
            return position
    raise EvaluationError(f"unsupported index in list: {key}")


def _missing(value: Any, key: Any) -> EvaluationError:
    return EvaluationError(f"index out of bounds: {key}") if isinstance(value, list) else no_such_key(key)
