"""Literals have the values that cel-go reads in them."""

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.parse import parse
from gpusharing.cel.tree import Constantly
from gpusharing.cel.values.numbers import Uint

NEWEST = 37


def value(text: str) -> Any:
    node = parse(text, NEWEST)
    assert isinstance(node, Constantly)
    return node.value


LITERALS = [
    ("0", 0),
    ("007", 7),
    ("0x1F", 31),
    ("-0x8000000000000000", -(2**63)),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    ("- 9223372036854775808", -(2**63)),
    ("0" * 5000 + "1", 1),
    ("1u", Uint(1)),
    ("0xfFU", Uint(255)),
    ("18446744073709551615u", Uint(2**64 - 1)),
    ("1.5", 1.5),
    (".5", 0.5),
    ("-.5e1", -5.0),
    ("1e3", 1000.0),
    ("1.5E-2", 0.015),
    ("1e+2", 100.0),
    ("1e-999", 0.0),
    ("true", True),
    ("false", False),
    ("null", None),
    ('""', ""),
    ("'\"'", '"'),
    ('"\'"', "'"),
    (r"'\'\"\`\?\\'", "'\"`?\\"),
    (r"'\a\b\f\n\r\t\v'", "\a\b\f\n\r\t\v"),
    (r"'\x41\X42\103\u0044\U00000045'", "ABCDE"),
    (r"'\377\xff'", "\xff\xff"),
    (r"'\U0001F600'", "\N{GRINNING FACE}"),
    ("'''a\nb'''", "a\nb"),
    ('"""a"b""c"""', 'a"b""c'),
    ('"""a\\""""', 'a"'),
    ("''''a'''", "'a"),
    ("'''a\r\nb\rc'''", "a\nb\nc"),
    ("r'\\n'", "\\n"),
    ('R"\\"', "\\"),
    ("r'''\\'a'\r\n'''", "\\'a'\n"),
    ("b'abc'", b"abc"),
    ("B'\N{LATIN SMALL LETTER E WITH ACUTE}'", b"\xc3\xa9"),
    (r"b'\xff\000\n'", b"\xff\0\n"),
    (r"br'\xff'", rb"\xff"),
    ("bR'''a\r\nb'''", b"a\nb"),
]


@pytest.mark.parametrize(("text", "expected"), LITERALS)
def test_a_literal_has_its_value_and_its_type(text: str, expected: Any) -> None:
    assert value(text) == expected
    assert type(value(text)) is type(expected)


REFUSED = [
    ("9223372036854775808", "the integer 9223372036854775808 needs more than 64 bits"),
    ("-9223372036854775809", "the integer -9223372036854775809 needs more"),
    ("--9223372036854775808", "needs more"),
    ("0x8000000000000000", "needs more"),
    ("1" * 10000, "the integer 1111111111111111111111111111111111111... needs"),
    ("18446744073709551616u", "the unsigned integer 18446744073709551616u needs"),
    ("1e999", "the number 1e999 is too large"),
    ("-1e999", "the number -1e999 is too large"),
    (r"'\ud800'", r"\ud800 is no Unicode character"),
    (r"'\U00110000'", r"\U00110000 is no Unicode character"),
    (r"'\Uffffffff'", "is no Unicode character"),
    (r"b'\u0041'", "names a character, and bytes hold none"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_no_value_can_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(CompileError) as refusal:
        parse(text, NEWEST)
    assert message in refusal.value.message


_CHARACTERS = st.characters(exclude_categories=["Cs"])


@given(st.text(_CHARACTERS))
@example("\\\"'`\n\r\t\0\N{GRINNING FACE}")
def test_a_string_that_is_quoted_is_read_as_it_was(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    assert value(f'"{escaped}"') == text
    assert value(f'"""{escaped}"""') == text
    assert value("'" + "".join(f"\\U{ord(character):08x}" for character in text) + "'") == text


@given(st.binary())
def test_bytes_that_are_quoted_are_read_as_they_were(content: bytes) -> None:
    assert value("b'" + "".join(f"\\x{byte:02x}" for byte in content) + "'") == content
    assert value("b'" + "".join(f"\\{byte:03o}" for byte in content) + "'") == content


@given(st.integers(-(2**70), 2**70))
def test_an_integer_is_read_if_it_has_64_bits(number: int) -> None:
    if -(2**63) <= number < 2**63:
        assert value(str(number)) == value(f"{'-' if number < 0 else ''}{abs(number):#x}") == number
    else:
        with pytest.raises(CompileError):
            parse(str(number), NEWEST)


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(math.nextafter(1, 2))
@example(5e-324)
def test_a_double_is_read_as_it_was(number: float) -> None:
    text = repr(number)
    assert value(text if "." in text or "e" in text else f"{text}.0") == number
