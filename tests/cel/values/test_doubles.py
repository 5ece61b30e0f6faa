"""Doubles are read and written as Kubernetes 1.37 does."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values.doubles import fixed, parse, plain, shortest

READ = [
    ("0", 0.0),
    ("-0", -0.0),
    ("1.", 1.0),
    (".5", 0.5),
    ("-.5e-3", -0.0005),
    ("1e5", 1e5),
    ("1E+5", 1e5),
    ("1_0", 10.0),
    ("1e1_0", 1e10),
    ("0x1p3", 8.0),
    ("0X1.8P1", 3.0),
    ("0x_1p3", 8.0),
    ("0x.8p0", 0.5),
    ("0x8.p0", 8.0),
    ("0x1p-1074", 5e-324),
    ("0x1p-1075", 0.0),
    ("0x1.8p-1074", 1e-323),
    ("0x1.fffffffffffff7p1023", 1.7976931348623157e308),
    ("1e-400", 0.0),
    ("0e99999999", 0.0),
    ("9007199254740993", 9007199254740992.0),
    ("inf", math.inf),
    ("+Inf", math.inf),
    ("-INFINITY", -math.inf),
    ("nan", math.nan),
    ("NaN", math.nan),
]

REFUSED = [
    "", ".", "+", "e5", "1e", "1e+", "_1", "1_", "1__0", "1_.5", "1._5", "1e_1", "0x1", "0x1.8", "0x1_p3", "0xp1",
    "0x_.8p0", "+nan", "-nan", "infinit", "1.0f", " 1", "1 ", "1\n", "0b1", "٣", "1,5",
    "1e309", "-1e309", "0x1p1024", "0x1.fffffffffffff8p1023",
]  # fmt: skip

WRITTEN = [
    (0.0, "0"),
    (-0.0, "-0"),
    (1.0, "1"),
    (1.5, "1.5"),
    (-12300.0, "-12300"),
    (999999.0, "999999"),
    (1000000.0, "1e+06"),
    (1234567.0, "1.234567e+06"),
    (1e20, "1e+20"),
    (1e100, "1e+100"),
    (0.0001, "0.0001"),
    (0.00001, "1e-05"),
    (0.00012345, "0.00012345"),
    (123456789.0, "1.23456789e+08"),
    (5e-324, "5e-324"),
    (1 / 3, "0.3333333333333333"),
    (2.0**63, "9.223372036854776e+18"),
    (math.inf, "+Inf"),
    (-math.inf, "-Inf"),
    (math.nan, "NaN"),
]


def bits(number: float) -> bytes:
    """Tells -0.0 from 0.0."""
    return struct.pack(">d", number)


@pytest.mark.parametrize(("text", "number"), READ)
def test_a_number_is_read(text: str, number: float) -> None:
    assert bits(parse(text)) == bits(number)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_number_or_too_large_is_refused(text: str) -> None:
    with pytest.raises(EvaluationError):
        parse(text)


def test_a_number_of_very_many_digits_is_not_read() -> None:
    with pytest.raises(BudgetError):
        parse("1" * 2000)


@pytest.mark.parametrize(("number", "text"), WRITTEN)
def test_a_number_is_written_with_the_fewest_digits(number: float, text: str) -> None:
    assert shortest(number) == text


@pytest.mark.parametrize(("number", "text"), [(1e21, "1" + "0" * 21), (0.00001, "0.00001"), (-1.5, "-1.5"), (0.0, "0")])
def test_a_plain_number_has_no_exponent(number: float, text: str) -> None:
    assert plain(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(2.5, "2.500"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN")]
)
def test_a_number_with_fixed_places(number: float, text: str) -> None:
    assert fixed(number, 3) == text


@given(st.floats())
def test_a_number_is_read_as_it_is_written(number: float) -> None:
    read = parse(shortest(number))
    assert bits(read) == bits(number) or math.isnan(number)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_plain_number_is_the_same_number(number: float) -> None:
    assert bits(float(plain(number))) == bits(number)
    assert "e" not in plain(number)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_hexadecimal_numbers_are_exact(number: float) -> None:
    assert bits(parse(number.hex())) == bits(number)
