"""The least of an HTTP server that probes and Prometheus need: GET, and one answer for each connection.

aiohttp's takes 1.2 MiB more on every node. Whoever reaches the pod may send anything here, so what a connection costs
is bounded: in bytes, in time, and in number, beyond which the oldest makes room, so that nobody keeps the probes out.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeAlias

import structlog

from gpusharing.kube.address import Address

log = structlog.get_logger(__name__)

_LONGEST_HEAD: Final = 8 * 1024
_PATIENCE: Final = 10.0
_CONNECTIONS: Final = 64
_END_OF_HEAD: Final = b"\r\n\r\n"
_REQUEST: Final = re.compile(rb"(?P<method>[A-Z]+) (?P<path>/[^ ?]*)(?:\?[^ ]*)? HTTP/1\.[01]\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def encoded(self) -> bytes:
        headers = {
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            "Connection": "close",
            **self.headers,
        }
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join(lines).encode("ascii") + _END_OF_HEAD + self.body


Pages: TypeAlias = Mapping[str, Callable[[], Awaitable[Answer]]]
"""By their paths."""


@asynccontextmanager
async def serving(address: Address, pages: Pages) -> AsyncIterator[Address]:
    """Gives the address, with the port that the system chose where none was asked for."""
    open_ones: dict[asyncio.StreamWriter, None] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(open_ones) == _CONNECTIONS:
            oldest = next(iter(open_ones))
            del open_ones[oldest]
            oldest.transport.abort()
        open_ones[writer] = None
        try:
            async with asyncio.timeout(_PATIENCE):
                writer.write((await _answer(reader, pages)).encoded())
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):
            # It has gone, or does not do its part.
            writer.transport.abort()
        finally:
            open_ones.pop(writer, None)

    server = await asyncio.start_server(connected, address.host, address.port, limit=_LONGEST_HEAD)
    try:
        host, port = server.sockets[0].getsockname()[:2]
        log.info("listening", host=host, port=port)
        yield Address(host, port)
    finally:
        server.close()
        for writer in open_ones:
            writer.transport.abort()
        await server.wait_closed()


async def _answer(reader: asyncio.StreamReader, pages: Pages) -> Answer:
    try:
        head = await reader.readuntil(_END_OF_HEAD)
    except asyncio.LimitOverrunError:
        return Answer(status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    request = _REQUEST.match(head)
    if request is None:
        return Answer(status=HTTPStatus.BAD_REQUEST)
    if request["method"] != b"GET":
        return Answer(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET"})
    path = request["path"].decode("latin-1")
    page = pages.get(path)
    if page is None:
        return Answer(status=HTTPStatus.NOT_FOUND)
    try:
        return await page()
    except Exception:
        log.exception("page cannot be shown", path=path)
        return Answer(status=HTTPStatus.INTERNAL_SERVER_ERROR)
