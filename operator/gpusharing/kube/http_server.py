"""The least of an HTTP server that probes and Prometheus need: GET, and one answer for each connection.

aiohttp's takes 1.2 MiB more on every node, and bounds nothing. Whoever reaches the pod may send anything here, so what
a connection costs is bounded: in bytes, in time, and in number, for each address and for all of them.
"""

import asyncio
import re
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
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
_CONNECTIONS_OF_ONE: Final = 8
# A second is enough to ask. Who has not asked by then makes room.
_YOUNG: Final = 1.0
_RETRY: Final = 1.0
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


class _Connections:
    """Those that are open, the oldest first."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Task[None], tuple[str, float]] = {}

    def has_room(self, address: str) -> bool:
        """The oldest makes room, unless it is young: a crowd must not push out a probe before it is answered."""
        of_one = self._of(address)
        if not self._make_room(of_one, _CONNECTIONS_OF_ONE):
            return False
        return self._make_room(list(self._open), _CONNECTIONS) or self._take_from_greediest(len(of_one) + 1)

    def _of(self, address: str) -> list[asyncio.Task[None]]:
        return [one for one, (theirs, _) in self._open.items() if theirs == address]

    def _take_from_greediest(self, count: int) -> bool:
        """Several addresses together must not keep out another one, which would have so many connections."""
        [(greediest, most)] = Counter(address for address, _ in self._open.values()).most_common(1)
        if most > count:
            self._end(self._of(greediest)[0])
        return most > count

    def _make_room(self, those: Sequence[asyncio.Task[None]], most: int) -> bool:
        if len(those) < most:
            return True
        _, since = self._open[those[0]]
        if time.monotonic() - since < _YOUNG:
            return False
        self._end(those[0])
        return True

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._open[task]
        task.cancel()

    def add(self, task: asyncio.Task[None], address: str) -> None:
        self._open[task] = address, time.monotonic()
        task.add_done_callback(lambda task: self._open.pop(task, None))


@asynccontextmanager
async def serving(address: Address, pages: Pages) -> AsyncIterator[Address]:
    """Gives the address, with the port that the system chose where none was asked for."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.create_server(address, family=family) as listener:
        listener.setblocking(False)
        host, port = listener.getsockname()[:2]
        log.info("listening", host=host, port=port)
        accepting = asyncio.create_task(_accept(listener, pages))
        try:
            yield Address(host, port)
        finally:
            accepting.cancel()
            await asyncio.wait({accepting})


async def _accept(listener: socket.socket, pages: Pages) -> None:
    loop, connections, can_accept = asyncio.get_running_loop(), _Connections(), True
    async with asyncio.TaskGroup() as tasks:
        while True:
            try:
                connection, (address, *_) = await loop.sock_accept(listener)
            except OSError as error:
                # No file descriptors, say. The server of asyncio would try, and complain, ever more often.
                if can_accept:
                    log.warning("connections not accepted", error=str(error))
                can_accept = False
                await asyncio.sleep(_RETRY)
                continue
            can_accept = True
            if connections.has_room(address):
                connections.add(tasks.create_task(_serve(connection, pages)), address)
            else:
                connection.close()


async def _serve(connection: socket.socket, pages: Pages) -> None:
    reader, writer = await asyncio.open_connection(sock=connection, limit=_LONGEST_HEAD)
    try:
        async with asyncio.timeout(_PATIENCE):
            writer.write((await _answer(reader, pages)).encoded())
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    except (OSError, asyncio.IncompleteReadError):
        # It has gone, or does not do its part.
        pass
    finally:
        writer.transport.abort()


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
        log.exception("page failed", path=path)
        return Answer(status=HTTPStatus.INTERNAL_SERVER_ERROR)
