"""A wire between a program and its server that can be cut, or be slow."""

import asyncio
import contextlib
import random
from types import TracebackType
from typing import Self

from harness.loopback import free_ports


class Proxy:
    """Hands on bytes, from a port of its own on the server's address (so that its certificate is good for both)."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._target = port
        (self.port,) = free_ports(host, 1)
        self.answers_take = (0.0, 0.0)
        """Seconds, from and to, before what comes after a question is handed on."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._connected, self._host, self.port)

    async def cut(self) -> None:
        """Ends all connections, and refuses new ones."""
        assert self._server
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        self._server = None

    async def __aenter__(self) -> Self:
        await self.mend()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server:
            await self.cut()

    async def _ask(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while data := await source.read(2**16):
            asked.set()
            to.write(data)
            await to.drain()
        _end(to)

    async def _answer(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while data := await source.read(2**16):
            if asked.is_set():
                asked.clear()
                await asyncio.sleep(random.uniform(*self.answers_take))  # noqa: S311
            to.write(data)
            await to.drain()
        _end(to)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        # Whoever ends it, all of it ends: without a good-bye, as wires are cut.
        ends = [writer]
        try:
            there_reader, there = await asyncio.open_connection(self._host, self._target)
            ends.append(there)
            asked = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._ask(reader, there, asked))
                tasks.create_task(self._answer(there_reader, writer, asked))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in ends:
                end.transport.abort()
            self._connections.discard(task)


def _end(to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        to.write_eof()
