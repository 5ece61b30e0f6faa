"""The head of a request, as far as all programs on its way to us read the same in it."""

from collections.abc import Mapping
from email.message import Message
from http.client import HTTPException
from typing import BinaryIO, Final

LARGEST_HEAD: Final = 96 * 1024
"""Bytes of the URL and all headers. http.server has 64 KiB for one of them."""
_SINGLE: Final = ("host", "authorization", "cookie", "origin", "content-length", "content-type")


class BoundedHead:
    """Reads a head of a bounded size; what comes behind it has bounds of its own."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = LARGEST_HEAD
        self.read = file.read
        self.close = file.close
        self.has_controls = False
        """Programs do not agree on where a line with such characters ends."""

    @property
    def closed(self) -> bool:
        return self._file.closed

    def readline(self, most: int) -> bytes:
        line = self._file.readline(min(most, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise HTTPException("the headers are too large")
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        self.has_controls |= any(byte < 32 and byte != 9 for byte in text)
        return line


def headers_of(message: Message) -> Mapping[str, str] | None:
    """None: another program could read something else in them."""
    found = [(name.lower(), value) for name, value in message.items()]
    names = [name for name, _ in found]
    if message.defects or any(names.count(name) > 1 for name in _SINGLE) or "transfer-encoding" in names:
        return None
    if any(name != name.strip() or "\n" in value for name, value in found):
        return None
    return dict(found)
