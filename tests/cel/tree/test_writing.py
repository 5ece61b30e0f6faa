"""Short expressions in messages are expressions again, and long ones are not written out."""

import pytest

from cel.checked_texts import NEWEST
from gpusharing.cel.syntax.parse import parse
from gpusharing.cel.tree.writing import shortened, written


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "1.5",
        "true",
        '"a\\"b"',
        "device.driver",
        'device.attributes["d"].a[0]',
        'quantity("1").add(quantity("2"))',
        "lists.range(3)",
        "size()",
    ],
)
def test_it_is_written_as_people_write_it(text: str) -> None:
    assert written(parse(text, NEWEST)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a" * 101, "..."),
        ("a.b.c.d.e.f.g.h.i", "....b.c.d.e.f.g.h.i"),
        ("f(1 + 2, [1], null)", "f(..., ..., ...)"),
        ("has(a.b)", "..."),
        ("[1].map(x, x)", "..."),
    ],
)
def test_what_is_long_or_complicated_is_left_out(text: str, expected: str) -> None:
    assert written(parse(text, NEWEST)) == expected


def test_a_word_is_shortened() -> None:
    assert shortened("a" * 40) == "a" * 40
    assert shortened("a" * 41) == "a" * 37 + "..."
