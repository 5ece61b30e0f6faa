"""Functions of optional values."""

from typing import Any, Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime.faults import no_such_overload
from gpusharing.cel.runtime.maps import DomainMap
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.network import Cidr, Ip
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional
from gpusharing.cel.values.quantity import Quantity
from gpusharing.cel.values.semver import Semver
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.type_values import TypeValue
from gpusharing.cel.values.urls import Url

_WITH_ZERO: Final = (bool, int, Uint, float, str, bytes, list, dict)
_FIRST_SECOND: Final = -62_135_596_800  # of the year 1


def none() -> Optional:
    return NONE


def of(value: Any) -> Optional:
    return Optional(value)


def of_non_zero(value: Any) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def has_value(optional: Any) -> bool:
    return optional is not NONE if type(optional) is Optional else no_such_overload()


def value(optional: Any) -> Any:
    if type(optional) is not Optional:
        no_such_overload()
    if optional is NONE:
        raise EvaluationError("optional.none() dereference")
    content = optional.value
    if type(content) is Unreadable:
        raise EvaluationError(content.message)
    return content


def whether_present(value: Any) -> Any:
    """An optional value as the answer of `has`."""
    return value is not NONE if type(value) is Optional else value


def optional(value: Any) -> Any:
    return value if type(value) is Optional else no_such_overload()


def itself(value: Any) -> Any:
    """Kubernetes up to 1.36 takes a value for an optional one in `or`."""
    return value


def content_or_itself(optional: Any) -> Any:
    """And in `orValue`."""
    return value(optional) if type(optional) is Optional else optional


class Unreadable:
    """What Kubernetes up to 1.36 makes of its own types in an optional value that a name stands for."""

    __slots__ = ("message",)

    def __init__(self, value: Any) -> None:
        self.message = f"unsupported conversion to ref.Val: {type(value).__name__}"


# Named formats are values to CEL's own eyes.
_KUBERNETES: Final = (Quantity, Semver, Url, Ip, Cidr)


def reread(value: Any) -> Any:
    """A value that a name stands for, up to Kubernetes 1.36: an optional one is opened and closed on the way."""
    if type(value) is Optional and value is not NONE:
        return Optional(reread_content(value.value))
    return value


def reread_content(value: Any) -> Any:
    """Optional values inside are opened, too, and the absent one becomes null."""
    while type(value) is Optional:
        value = None if value is NONE else value.value
    if type(value) is TypeValue:
        return value.name
    return Unreadable(value) if isinstance(value, _KUBERNETES) else value


def first(items: list[Any]) -> Optional:
    return Optional(items[0]) if items else NONE


def last(items: list[Any]) -> Optional:
    return Optional(items[-1]) if items else NONE


def unwrap(items: list[Any]) -> list[Any]:
    if not all(type(item) is Optional for item in items):
        raise EvaluationError("a value to unwrap is not optional")
    return [item.value for item in items if item is not NONE]


def _is_zero(value: Any) -> bool:
    match value:
        case None:
            return True
        case DomainMap():
            return False
        case Duration():
            return value.nanoseconds == 0
        case Timestamp():
            return value.unix == _FIRST_SECOND and value.nanoseconds == 0
    return isinstance(value, _WITH_ZERO) and not value
