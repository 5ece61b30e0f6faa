"""Quoted text is that of Go's %q."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.values.quoting import quote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("héllo \N{GRINNING FACE}", '"héllo \N{GRINNING FACE}"'),
        ('a"b\\', r'"a\"b\\"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("\x80\xa0\xad", r'"\u0080\u00a0\u00ad"'),
        ("\u200b\u2028\ufeff\ue000", r'"\u200b\u2028\ufeff\ue000"'),
        ("\U000e0001", r'"\U000e0001"'),
        ("\ufffd", '"\ufffd"'),
        ("a\udcff", r'"a\xff"'),
    ],
)
def test_what_cannot_be_printed_is_escaped(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_printable_ascii_is_quoted_as_in_json(text: str) -> None:
    assert quote(text) == json.dumps(text)
