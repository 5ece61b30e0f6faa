"""Formatted text is that of Kubernetes 1.37, surprises included."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values import quantity, timestamps
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.formatting import Clause, format_text, parse
from gpusharing.cel.values.numbers import BoolKey, Uint
from gpusharing.cel.values.optional import NONE
from gpusharing.cel.values.type_values import TypeValue

MOMENT = timestamps.parse("2024-01-01T00:00:00.5Z")
MIXED = [
    1, Uint(2), 1.5, 'a"b', b"x", None, True, Duration(10**9), MOMENT, math.inf, math.nan, TypeValue("int"), ["n"],
]  # fmt: skip
MIXED_TEXT = (
    '[1, 2, 1.500000, "a\\"b", b"x", null, true, duration("1s"), timestamp("2024-01-01T00:00:00.5Z"), "+Inf", "NaN", '
    'int, ["n"]]'
)

FORMATTED: list[tuple[str, list[Any], str]] = [
    ("%s and %s", ["a", 1], "a and 1"),
    ("%%", [], "%"),
    ("100%%%s", ["a"], "100%a"),
    ("é%sé", ["é"], "ééé"),
    ("%s", [None], "null"),
    ("%s", [True], "true"),
    ("%s", [1.5], "1.5"),
    ("%s", [1000000.0], "1e+06"),
    ("%s", [math.nan], "NaN"),
    ("%s", [b"abc"], "abc"),
    ("%s", [Duration(90 * 10**9)], "90s"),
    ("%s", [MOMENT], "2024-01-01T00:00:00.5Z"),
    ("%s %s", [TypeValue("int"), TypeValue("list")], "int list"),
    ("%s", [[]], "[]"),
    ("%s", [MIXED], MIXED_TEXT),
    ("%s", [["é\u200b\n"]], '["é\\u200b\\n"]'),
    ("%s", [{"b": 1, "a": [1.0]}], '{"a":[1.000000], "b":1}'),
    ("%s", [{2: 1, 10: 2}], "{10:2, 2:1}"),
    ("%s", [{BoolKey.TRUE: 1, BoolKey.FALSE: 2}], "{false:2, true:1}"),
    ("%s", [{1: 2, "x": {}}], '{"x":{}, 1:2}'),
    ("%d", [-5], "-5"),
    ("%d", [Uint((1 << 64) - 1)], "18446744073709551615"),
    ("%b", [-5], "-101"),
    ("%b", [True], "1"),
    ("%o", [-8], "-10"),
    ("%x", [-255], "-ff"),
    ("%X", [255], "FF"),
    ("%x", ["héy"], "68c3a979"),
    ("%x", ["\udcff"], "ff"),
    ("%X", [b"\xff\x00"], "FF00"),
    ("%x", [Uint(10)], "a"),
    ("%f", [1234567.891], "1,234,567.891000"),
    ("%.2f", [0.125], "0.12"),
    ("%.0f", [2.5], "2"),
    ("%.1f", [-0.04], "-0.0"),
    ("%f", [-0.0], "0.000000"),
    ("%f", [1e22], "10,000,000,000,000,000,000,000.000000"),
    ("%.3f", ["NaN"], "NaN"),
    ("%f", ["Infinity"], "∞"),
    ("%f", ["-Infinity"], "-∞"),
    ("%.300f", [1.5], "1.5" + "0" * 43),
    ("%.40000f", [1.5], "1.5" + "0" * 63),
    ("%.65536f", [1.5], "2"),
    ("%.10000009f", [0.5], "0.5" + "0" * 136),
    ("%.10000010f", [0.5], "%!(NOVERB)"),
    ("%e", [1234.5678], "1.234568\N{MULTIPLICATION SIGN}10⁰³"),
    ("%.2e", [1234.5678], "1.234568\N{MULTIPLICATION SIGN}10⁰³"),
    ("%.20e", [1234.5678], "       1.234568\N{MULTIPLICATION SIGN}10⁰³"),
    ("%e", [0.0], "0.000000\N{MULTIPLICATION SIGN}10⁰⁰"),
    ("%e", [-1e-10], "-1.000000\N{MULTIPLICATION SIGN}10⁻¹⁰"),
    ("%e", [math.inf], "     ∞"),
    ("%e", ["-Infinity"], "    -∞"),
    ("%.3s%.3d", ["abcdef", 5], "abcdef5"),
    ("%s", [1, 2], "1"),
]

# Template, arguments, and what the message says.
REFUSED: list[tuple[str, list[Any], str]] = [
    ("%", [1], "unexpected end of string"),
    ("%z", [1], 'unrecognized formatting clause "z"'),
    ("%5d", [1], 'unrecognized formatting clause "5"'),
    ("% s", ["a"], 'unrecognized formatting clause " "'),
    ("%é", [1], "unrecognized formatting clause"),
    ("%.f", [1.0], "error while parsing precision"),
    ("%.5", [1.0], "could not find end of precision specifier"),
    ("%.9223372036854775808f", [1.0], "error while parsing precision"),
    ("%s", [], "index 0 out of range"),
    ("%s %s", ["a"], "index 1 out of range"),
    ("%d", ["1"], "decimal clause can only be used on integers, was given string"),
    ("%d", [1.0], "decimal clause can only be used on integers, was given double"),
    ("%d", [True], "decimal clause can only be used on integers, was given bool"),
    ("%f", [1], "fixed-point clause can only be used on doubles, was given int"),
    ("%f", ["inf"], "fixed-point clause can only be used on doubles, was given string"),
    ("%e", ["1"], "scientific clause can only be used on doubles, was given string"),
    ("%b", ["1"], "only integers and bools can be formatted as binary, was given string"),
    ("%o", [True], "octal clause can only be used on integers, was given bool"),
    ("%x", [True], "only integers, byte buffers, and strings can be formatted as hex, was given bool"),
    ("%x", [1.0], "only integers, byte buffers, and strings can be formatted as hex, was given double"),
    ("%s", [b"\xff"], "invalid UTF-8 in bytes"),
    ("%s", [[b"\xff"]], "invalid UTF-8 in bytes"),
    ("%s", [quantity.parse("1")], "was given kubernetes.Quantity"),
    ("%s", [[NONE]], "was given optional_type"),
    ("%s", [{1.5: 1}], "keys of a map"),
]


@pytest.mark.parametrize(("template", "arguments", "expected"), FORMATTED)
def test_formatted_text(template: str, arguments: list[Any], expected: str) -> None:
    assert format_text(template, arguments) == expected


@pytest.mark.parametrize(("template", "arguments", "message"), REFUSED)
def test_what_does_not_fit_is_refused(template: str, arguments: list[Any], message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        format_text(template, arguments)
    assert message in caught.value.message


def test_a_template_is_texts_and_clauses() -> None:
    assert parse("a%sb%%%.03fc") == ["a", Clause("s"), "b", "%", "", Clause("f", 3), "c"]


def test_a_formatted_text_must_not_blow_up() -> None:
    long = "x" * 100_000
    with pytest.raises(BudgetError):
        format_text("%s" * 20, [long] * 20)
    with pytest.raises(BudgetError):
        format_text("%s", [[long] * 20])
    with pytest.raises(BudgetError):
        format_text("%s", [{"a": [{"b": [long]}] * 20}])


def test_the_longest_number_is_that_of_the_widest_clause() -> None:
    assert len(format_text("%.65535e", [1.0])) == 65535
    assert len(format_text("%.1074f", [5e-324])) == 1076


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_in_four_bases(number: int) -> None:
    assert format_text("%d %b %o %x", [number] * 4) == f"{number} {number:b} {number:o} {number:x}"


@given(st.floats(-1e15, 1e15), st.integers(0, 12))
def test_doubles_are_rounded_as_python_rounds_them(number: float, places: int) -> None:
    expected = f"{number:,.{places}f}"
    assert format_text(f"%.{places}f", [number]) == (expected if number else expected.lstrip("-"))


@given(st.text(), st.lists(st.integers() | st.text(max_size=3) | st.none(), max_size=3))
def test_any_template_gives_a_text_or_an_error(template: str, arguments: list[Any]) -> None:
    try:
        text = format_text(template, arguments)
    except EvaluationError:
        return
    assert "%" in template or text == template
