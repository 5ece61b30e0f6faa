"""`==` and what is built on it. The left side decides how two values are compared, and whether they can be."""

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.runtime import maps
from gpusharing.cel.runtime.lists import JoinedList
from gpusharing.cel.runtime.optionals import Unreadable
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.named_formats import NamedFormat
from gpusharing.cel.values.network import Cidr, Ip
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional
from gpusharing.cel.values.quantity import Quantity
from gpusharing.cel.values.semver import Semver
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.type_values import TypeValue
from gpusharing.cel.values.urls import Url

Verdict: TypeAlias = bool | None
"""None: these two cannot be compared, which is an error or not depending on who asks."""


def equal(left: Any, right: Any) -> bool:
    verdict = compare(left, right)
    if verdict is None:
        raise EvaluationError("no such overload")
    return verdict


def unequal(left: Any, right: Any) -> bool:
    return compare(left, right) is not True


def compare(left: Any, right: Any) -> Verdict:
    """null can be compared with everything."""
    if left is None or right is None:
        return left is right
    return same(left, right)


def same(left: Any, right: Any) -> Verdict:
    """As functions compare: here null is like any other value, and a version cannot be compared with it."""
    kind = type(left)
    if kind is str:
        return type(right) is str and left == right
    if isinstance(left, _CONTAINERS):
        return _Comparison().same(left, right)
    return _SIMPLE.get(kind, _never)(left, right)


def includes(items: list[Any], value: Any) -> bool:
    """Whether a list contains the value, as `in` and the functions of sets see it: the value stands on the left."""
    if type(value) is str:
        return value in items
    return any(same(value, item) is True for item in items)


def compare_to_double(left: float, right: float) -> int:
    """-1, 0 or 1 for two numbers of which at least one is a double; none is NaN. An integer is rounded to a double."""
    if isinstance(left, int):
        return -_compare_double(right, left)
    return _compare_double(left, right)


def _compare_double(left: float, right: float) -> int:
    if isinstance(right, int):
        smallest, largest = (0.0, _TWO_TO_64) if type(right) is Uint else (-_TWO_TO_63, _TWO_TO_63)
        if left < smallest:
            return -1
        if left > largest:
            return 1
        right = float(right)
    return (left > right) - (left < right)


_TWO_TO_63: Final = 2.0**63
_TWO_TO_64: Final = 2.0**64


def _never(_left: Any, _right: Any) -> Verdict:
    return False


def _of_integers(left: int, right: Any) -> Verdict:
    kind = type(right)
    if kind is int or kind is Uint:
        return left == int(right)
    return kind is float and not math.isnan(right) and compare_to_double(left, right) == 0


def _of_doubles(left: float, right: Any) -> Verdict:
    if type(right) not in _NUMBERS or math.isnan(left) or math.isnan(right):
        return False
    return compare_to_double(left, right) == 0


_NUMBERS: Final = frozenset((int, Uint, float))


def _of_bytes(left: bytes, right: Any) -> Verdict:
    return type(right) is bytes and left == right


def _identity(left: Any, right: Any) -> Verdict:
    return left is right


def _strictly(kind: type) -> Callable[[Any, Any], Verdict]:
    """Kubernetes' own types refuse any other type on their right."""

    def compare_strictly(left: Any, right: Any) -> Verdict:
        return bool(left.equals(right)) if type(right) is kind else None

    return compare_strictly


def _of_quantities(left: Quantity, right: Any) -> Verdict:
    return left.equals(right) if type(right) is Quantity and not right.is_sum else None


def _of_durations(left: Duration, right: Any) -> Verdict:
    return type(right) is Duration and left.equals(right)


def _of_types(left: TypeValue, right: Any) -> Verdict:
    return type(right) is TypeValue and left == right


def _of_formats(left: NamedFormat, right: Any) -> Verdict:
    return left.name == right.name if type(right) is NamedFormat else None


def _of_timestamps(left: Timestamp, right: Any) -> Verdict:
    return type(right) is Timestamp and left.equals(right)


_SIMPLE: Final[dict[type, Callable[[Any, Any], Verdict]]] = {
    bool: _identity,
    type(None): _identity,
    int: _of_integers,
    Uint: _of_integers,
    float: _of_doubles,
    bytes: _of_bytes,
    Duration: _of_durations,
    Timestamp: _of_timestamps,
    TypeValue: _of_types,
    NamedFormat: _of_formats,
    Quantity: _of_quantities,
    Semver: _strictly(Semver),
    Url: _strictly(Url),
    Ip: _strictly(Ip),
    Cidr: _strictly(Cidr),
    Unreadable: lambda _left, _right: None,
}

_CONTAINERS: Final = (list, dict, Optional)

_SAME_IN_PYTHON: Final = frozenset((str, int))
_MOST_COMPARISONS: Final = 300_000
"""One list may occur in another a million times at no cost, and they are compared at next to none."""


class _Comparison:
    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def same(self, left: Any, right: Any) -> Verdict:
        self._count += 1
        if self._count > _MOST_COMPARISONS:
            raise BudgetError(f"more than {_MOST_COMPARISONS} comparisons to compare two values")
        match left:
            case list():
                return isinstance(right, list) and self._lists(left, right)
            case dict():
                return isinstance(right, dict) and self._maps(left, right)
            case Optional():
                return isinstance(right, Optional) and self._optionals(left, right)
        return same(left, right)

    def _values(self, left: Any, right: Any) -> Verdict:
        if left is None or right is None:
            return left is right
        return self.same(left, right)

    def _lists(self, left: list[Any], right: list[Any]) -> Verdict:
        if len(left) != len(right):
            return False
        kinds = {*map(type, left), *map(type, right)}
        if len(kinds) == 1 and not kinds.isdisjoint(_SAME_IN_PYTHON):
            return left == right
        verdict: Verdict = True
        for one, other in zip(left, right, strict=True):
            of_items = self._values(one, other)
            if of_items is False:
                return False
            if of_items is None and type(left) is JoinedList:
                verdict = None
        return verdict

    def _maps(self, left: dict[Any, Any], right: dict[Any, Any]) -> Verdict:
        if len(left) != len(right):
            return False
        for key, value in maps.items(left):
            other = maps.find(right, key)
            if other is maps.MISSING or self._values(value, other) is False:
                return False
        return True

    def _optionals(self, left: Optional, right: Optional) -> Verdict:
        if left is NONE or right is NONE:
            return left is right
        return self.same(left.value, right.value)
