"""Text with bytes that are no UTF-8."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.values.utf8 import decoded, encoded


@given(st.binary())
def test_bytes_become_text_and_bytes_again(raw: bytes) -> None:
    assert encoded(decoded(raw)) == raw


@pytest.mark.parametrize(("raw", "length"), [(b"\xff", 1), (b"\xe2\x82", 2), (b"\xed\xa0\x80", 3), (b"\xc3\xa9", 1)])
def test_each_byte_that_is_no_utf8_is_a_character(raw: bytes, length: int) -> None:
    assert len(decoded(raw)) == length


def test_other_surrogates_are_replaced() -> None:
    for surrogate in (0xD800, 0xDC00, 0xDC7F, 0xDD00, 0xDFFF):
        assert encoded(f"a{chr(surrogate)}\udc80") == "a\N{REPLACEMENT CHARACTER}".encode() + b"\x80"
