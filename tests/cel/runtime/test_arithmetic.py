"""Calculations of all types, and where they overflow."""

import math
from typing import Any

import pytest
from hypothesis import given

from cel.values_at_random import LARGEST, NAN, SMALLEST, ints
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import arithmetic
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.timestamps import Timestamp


@pytest.mark.parametrize(
    ("calculate", "left", "right", "expected"),
    [
        (arithmetic.add, LARGEST, 1, "integer overflow"), (arithmetic.subtract, SMALLEST, 1, "integer overflow"),
        (arithmetic.multiply, SMALLEST, -1, "integer overflow"), (arithmetic.divide, SMALLEST, -1, "integer overflow"),
        (arithmetic.modulo, SMALLEST, -1, "integer overflow"), (arithmetic.divide, 1, 0, "division by zero"),
        (arithmetic.modulo, 1, 0, "modulus by zero"), (arithmetic.divide, -7, 2, -3), (arithmetic.modulo, -7, 2, -1),
        (arithmetic.modulo, 7, -2, 1), (arithmetic.subtract, Uint(1), Uint(2), "unsigned integer overflow"),
        (arithmetic.add, Uint(2**64 - 1), Uint(1), "unsigned integer overflow"),
        (arithmetic.add, Uint(1), Uint(2), Uint(3)), (arithmetic.divide, Uint(7), Uint(2), Uint(3)),
        (arithmetic.add, 1, Uint(1), "no such overload"), (arithmetic.add, 1, 1.0, "no such overload"),
        (arithmetic.add, True, True, "no such overload"), (arithmetic.add, "a", "b", "ab"),
        (arithmetic.add, b"a", b"b", b"ab"), (arithmetic.add, [1], "a", "no such overload"),
        (arithmetic.divide, 1.0, 0.0, math.inf), (arithmetic.divide, 1.0, -0.0, -math.inf),
        (arithmetic.divide, -1.0, 0.0, -math.inf), (arithmetic.multiply, 1e308, 10.0, math.inf),
        (arithmetic.modulo, 1.0, 1.0, "no such overload"), (arithmetic.subtract, "a", "b", "no such overload"),
    ],
)  # fmt: skip
def test_calculations(calculate: Any, left: Any, right: Any, expected: Any) -> None:
    if isinstance(expected, str) and expected != "ab":
        with pytest.raises(EvaluationError, match=expected):
            calculate(left, right)
    else:
        result = calculate(left, right)
        assert result == expected
        assert type(result) is type(expected)


@given(ints, ints.filter(bool))
def test_quotient_and_remainder_belong_together(dividend: int, divisor: int) -> None:
    if (dividend, divisor) != (SMALLEST, -1):
        quotient, remainder = arithmetic.divide(dividend, divisor), arithmetic.modulo(dividend, divisor)
        assert quotient * divisor + remainder == dividend
        assert abs(remainder) < abs(divisor)
        assert remainder == 0 or (remainder < 0) == (dividend < 0)


def test_nothing_divided_by_nothing_is_no_number() -> None:
    assert math.isnan(arithmetic.divide(0.0, 0.0))
    assert math.isnan(arithmetic.divide(NAN, 0.0))


def test_durations_and_moments_can_be_calculated_with() -> None:
    hour, noon = Duration(3_600_000_000_000), Timestamp(43_200)
    assert arithmetic.add(noon, hour).unix == arithmetic.add(hour, noon).unix == 46_800
    assert arithmetic.subtract(noon, hour).unix == 39_600
    assert arithmetic.subtract(noon, arithmetic.add(noon, hour)).nanoseconds == -hour.nanoseconds
    assert arithmetic.negate(hour).nanoseconds == -hour.nanoseconds
    with pytest.raises(EvaluationError, match="no such overload"):
        arithmetic.negate(Uint(1))
