"""Bytes become lines, whatever the chunks are in which they come."""

from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.kube import reading


async def chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@given(st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"x", b"\n"))), st.integers(1, 20))
async def test_lines_are_those_of_all_bytes_together(parts: list[bytes], most: int) -> None:
    found = [line async for line in reading.lines(chunks(parts), most)]
    expected = b"".join(parts).split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert [line.is_whole for line in found] == [len(line) <= most for line in expected]
    assert all(line.data == real for line, real in zip(found, expected, strict=True) if line.is_whole)
    assert all(real.startswith(line.data) for line, real in zip(found, expected, strict=True))


async def test_of_a_line_that_is_too_long_only_the_beginning_is_kept() -> None:
    [long, short] = [line async for line in reading.lines(chunks([*[b"x" * 2**16] * 100, b"\nshort"]), 2**20)]
    assert (len(long.data), long.is_whole) == (2**16, False)
    assert short == (b"short", True)


async def test_an_answer_is_not_read_on_once_it_is_too_long() -> None:
    rest = chunks([b"1234", b"56", b"7890"])
    assert await reading.read(rest, 5) == (b"123456", False)
    assert [part async for part in rest] == [b"7890"]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b'{"type":"ADDED","object":{"kind":"K","metadata":{"name":"a","namespace":"b","uid":"u"', "b/a"),
        (b'{"metadata":{"name":"a","generateName":"g","labels":{"name":"x"},"namespace":"b"', "a"),
        (b'{"metadata":{"name":"a","uid":"u"},"spec":{"metadata":{"name":"x"}}', "a"),
        (b'{"apiVersion":"v1","metadata":{"annotations":{"name":"x"', "?"),
        (b'{"metadata":{"name":"\xff"', "\ufffd"),
        (b"", "?"),
    ],
)
def test_name_in(head: bytes, name: str) -> None:
    assert reading.name_in(head) == name
