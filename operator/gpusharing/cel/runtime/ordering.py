"""`<`, `<=`, `>`, `>=`, and the order that sorting uses."""

import math
from collections.abc import Callable
from typing import Any, Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime.equality import compare_to_double
from gpusharing.cel.runtime.faults import no_such_overload
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.timestamps import Timestamp


def less(left: Any, right: Any) -> bool:
    return order(left, right) < 0


def less_or_equal(left: Any, right: Any) -> bool:
    return order(left, right) <= 0


def greater(left: Any, right: Any) -> bool:
    return order(left, right) > 0


def greater_or_equal(left: Any, right: Any) -> bool:
    return order(left, right) >= 0


def order(left: Any, right: Any) -> int:
    """-1, 0 or 1."""
    return _ORDERS.get((type(left), type(right)), no_such_overload)(left, right)


def is_ordered(value: Any) -> bool:
    return type(value) in _ORDERED


def _natural(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _with_double(left: float, right: float) -> int:
    if math.isnan(left) or math.isnan(right):
        raise EvaluationError("NaN values cannot be ordered")
    return compare_to_double(left, right)


_Order = Callable[[Any, Any], int]

_NUMBERS: Final = (int, Uint, float)

_ORDERS: Final[dict[tuple[type, type], _Order]] = {
    **{(kind, kind): _natural for kind in (bool, str, bytes)},
    **{(one, other): _natural for one in (int, Uint) for other in (int, Uint)},
    **{(float, other): _with_double for other in _NUMBERS},
    **{(other, float): _with_double for other in _NUMBERS},
    (Duration, Duration): Duration.compare,
    (Timestamp, Timestamp): Timestamp.compare,
}
_ORDERED: Final = frozenset(kind for kind, _ in _ORDERS)
