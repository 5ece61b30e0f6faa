"""`+ - * / %` and the minus sign: integers of 64 bits, doubles as the processor has them."""

import math
from collections.abc import Callable
from typing import Any, Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import lists
from gpusharing.cel.runtime.faults import no_such_overload
from gpusharing.cel.values.bounds import check_text
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.timestamps import Timestamp

SMALLEST_INT: Final = -(1 << 63)
LARGEST_INT: Final = (1 << 63) - 1
LARGEST_UINT: Final = (1 << 64) - 1


def add(left: Any, right: Any) -> Any:
    if isinstance(left, list):
        return lists.added(left, right) if isinstance(right, list) else no_such_overload()
    return _ADD.get((type(left), type(right)), no_such_overload)(left, right)


def subtract(left: Any, right: Any) -> Any:
    return _SUBTRACT.get((type(left), type(right)), no_such_overload)(left, right)


def multiply(left: Any, right: Any) -> Any:
    return _MULTIPLY.get((type(left), type(right)), no_such_overload)(left, right)


def divide(left: Any, right: Any) -> Any:
    return _DIVIDE.get((type(left), type(right)), no_such_overload)(left, right)


def modulo(left: Any, right: Any) -> Any:
    return _MODULO.get((type(left), type(right)), no_such_overload)(left, right)


def negate(value: Any) -> Any:
    return _NEGATE.get(type(value), no_such_overload)(value)


def _int(value: int) -> int:
    if SMALLEST_INT <= value <= LARGEST_INT:
        return value
    raise EvaluationError("integer overflow")


def _uint(value: int) -> Uint:
    if 0 <= value <= LARGEST_UINT:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def _quotient(left: int, right: int) -> int:
    """Toward zero."""
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    """With the sign of the left side."""
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == SMALLEST_INT and right == -1:
        raise EvaluationError("integer overflow")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def _ratio(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _joined_text(left: str, right: str) -> str:
    check_text(len(left) + len(right))
    return left + right


def _joined_bytes(left: bytes, right: bytes) -> bytes:
    check_text(len(left) + len(right))
    return left + right


_Operation = Callable[[Any, Any], Any]
_Operations = dict[tuple[type, type], _Operation]

_ADD: Final[_Operations] = {
    (int, int): lambda left, right: _int(left + right),
    (Uint, Uint): lambda left, right: _uint(int(left) + int(right)),
    (float, float): lambda left, right: left + right,
    (str, str): _joined_text,
    (bytes, bytes): _joined_bytes,
    (Duration, Duration): Duration.add,
    (Duration, Timestamp): lambda left, right: right.add(left),
    (Timestamp, Duration): Timestamp.add,
}
_SUBTRACT: Final[_Operations] = {
    (int, int): lambda left, right: _int(left - right),
    (Uint, Uint): lambda left, right: _uint(int(left) - int(right)),
    (float, float): lambda left, right: left - right,
    (Duration, Duration): Duration.subtract,
    (Timestamp, Duration): Timestamp.subtract,
    (Timestamp, Timestamp): Timestamp.since,
}
_MULTIPLY: Final[_Operations] = {
    (int, int): lambda left, right: _int(left * right),
    (Uint, Uint): lambda left, right: _uint(int(left) * int(right)),
    (float, float): lambda left, right: left * right,
}
_DIVIDE: Final[_Operations] = {
    (int, int): lambda left, right: _int(_quotient(left, right)),
    (Uint, Uint): lambda left, right: _uint(_quotient(int(left), int(right))),
    (float, float): _ratio,
}
_MODULO: Final[_Operations] = {
    (int, int): _remainder,
    (Uint, Uint): lambda left, right: _uint(_remainder(int(left), int(right))),
}
_NEGATE: Final[dict[type, Callable[[Any], Any]]] = {
    int: lambda value: _int(-value),
    float: lambda value: -value,
    Duration: Duration.negate,
}
