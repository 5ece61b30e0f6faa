"""Conversions give the answers of Kubernetes 1.37."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values import conversions
from gpusharing.cel.values.numbers import Uint

# Text, as an int, as a uint; None is an error.
INTEGERS = [
    ("0", 0, 0),
    ("-0", 0, None),
    ("+12", 12, None),
    ("007", 7, 7),
    ("0" * 900 + "7", 7, 7),
    ("9223372036854775807", (1 << 63) - 1, (1 << 63) - 1),
    ("-9223372036854775808", -(1 << 63), None),
    ("9223372036854775808", None, 1 << 63),
    ("-9223372036854775809", None, None),
    ("18446744073709551615", None, (1 << 64) - 1),
    ("18446744073709551616", None, None),
    *(
        (text, None, None)
        for text in ("", "+", "-", "1_0", "0x2a", " 1", "1 ", "1\n", "1.0", "1e3", "٣", "a", "9" * 900)
    ),
]

# The same of doubles.
DOUBLES = [
    (4.9, 4, 4),
    (-4.9, -4, None),
    (-0.5, 0, None),
    (9223372036854774784.0, 9223372036854774784, 9223372036854774784),
    (2.0**63, None, 1 << 63),
    (-(2.0**63), None, None),
    (-9223372036854774784.0, -9223372036854774784, None),
    (18446744073709549568.0, None, 18446744073709549568),
    (2.0**64, None, None),
    (math.nan, None, None),
    (math.inf, None, None),
    (-1.0, -1, None),
]


def check(convert: Callable[[Any], Any], value: object, expected: int | None, kind: type) -> None:
    if expected is None:
        with pytest.raises(EvaluationError):
            convert(value)
    else:
        assert convert(value) == expected
        assert type(convert(value)) is kind


@pytest.mark.parametrize(("text", "signed", "unsigned"), INTEGERS)
def test_integers_of_text(text: str, signed: int | None, unsigned: int | None) -> None:
    check(conversions.int_of_text, text, signed, int)
    check(conversions.uint_of_text, text, unsigned, Uint)


@pytest.mark.parametrize(("number", "signed", "unsigned"), DOUBLES)
def test_integers_of_doubles(number: float, signed: int | None, unsigned: int | None) -> None:
    check(conversions.int_of_double, number, signed, int)
    check(conversions.uint_of_double, number, unsigned, Uint)


@given(st.integers(0, (1 << 64) - 1))
def test_integers_of_integers(number: int) -> None:
    check(conversions.int_of_uint, Uint(number), number if number < 1 << 63 else None, int)
    check(conversions.uint_of_int, number - (1 << 63), number - (1 << 63) if number >= 1 << 63 else None, Uint)


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "TRUE", "True"])
def test_true_has_six_forms(text: str) -> None:
    assert conversions.bool_of_text(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "false", "FALSE", "False"])
def test_false_has_six_forms(text: str) -> None:
    assert conversions.bool_of_text(text) is False


@pytest.mark.parametrize("text", ["", "tRUE", "yes", "10", "true "])
def test_no_other_form_is_a_bool(text: str) -> None:
    with pytest.raises(EvaluationError, match="is no bool"):
        conversions.bool_of_text(text)


def test_bools_are_written_small() -> None:
    assert [conversions.text_of_bool(value) for value in (True, False)] == ["true", "false"]


@given(st.text())
def test_text_becomes_bytes_and_text_again(text: str) -> None:
    assert conversions.text_of_bytes(conversions.bytes_of_text(text)) == text


@pytest.mark.parametrize("raw", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_bytes_that_are_no_utf8_are_no_text(raw: bytes) -> None:
    with pytest.raises(EvaluationError, match="invalid UTF-8"):
        conversions.text_of_bytes(raw)


def test_a_byte_that_a_url_left_in_a_text_comes_out_again() -> None:
    assert conversions.bytes_of_text("a\udcff") == b"a\xff"


def test_a_very_long_number_is_not_read_and_a_long_message_is_cut() -> None:
    for convert in (conversions.int_of_text, conversions.uint_of_text):
        with pytest.raises(BudgetError):
            convert("0" * 2000 + "7")
        with pytest.raises(EvaluationError, match=r'^" {100}\.\.\." is no') as caught:
            convert(" " * 2000)
        assert not isinstance(caught.value, BudgetError)
