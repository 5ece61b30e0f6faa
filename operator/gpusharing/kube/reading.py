"""Bytes from the API server, never more of them in memory than one object can have."""

import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Final, NamedTuple

LARGEST_OBJECT: Final = 12 * 2**20
"""etcd takes 1.5 MiB by default, of which each byte can be six as JSON (`<` is written as \\u003c)."""
_HEAD: Final = 2**16
"""What is kept of more than that: enough to tell whose it is."""

_NAME: Final = re.compile(rb'"metadata":\{[^{}]*?"name":"([^"]+)"')
_NAMESPACE: Final = re.compile(rb'"metadata":\{[^{}]*?"namespace":"([^"]+)"')


class Part(NamedTuple):
    """A line or an answer."""

    data: bytes
    is_whole: bool
    """Otherwise it is too long, and this is its beginning."""


async def read(chunks: AsyncIterable[bytes], most: int) -> Part:
    """Stops where it becomes too long."""
    found = _Bounded(most)
    async for chunk in chunks:
        found.add(chunk)
        if not found.is_whole:
            break
    return found.take()


async def lines(chunks: AsyncIterable[bytes], most: int = LARGEST_OBJECT) -> AsyncIterator[Part]:
    """Goes on behind a line that is too long."""
    line = _Bounded(most)
    async for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line.add(end)
            yield line.take()
        line.add(rest)
    last = line.take()
    if last.data:
        yield last


def name_in(head: bytes) -> str:
    """Of the object that begins there, as far as it can be known."""
    found = [match[1].decode(errors="replace") for match in (_NAMESPACE.search(head), _NAME.search(head)) if match]
    return "/".join(found) or "?"


class _Bounded:
    def __init__(self, most: int) -> None:
        self._most = most
        self._data = bytearray()
        self.is_whole = True

    def add(self, more: bytes) -> None:
        if self.is_whole:
            self._data += more
        if len(self._data) > self._most:
            self.is_whole = False
            del self._data[_HEAD:]

    def take(self) -> Part:
        """Begins anew."""
        part = Part(bytes(self._data), self.is_whole)
        self._data, self.is_whole = bytearray(), True
        return part
