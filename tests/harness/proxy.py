"""A wire between a program and its server that can be cut."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from harness.loopback import free_ports


class Proxy:
    """Hands on bytes, from a port of its own on the server's address (so that its certificate is good for both)."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._target = port
        (self.port,) = free_ports(host, 1)
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

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        # Whoever ends it, all of it ends: without a good-bye, as wires are cut.
        ends = [writer]
        try:
            there_reader, there = await asyncio.open_connection(self._host, self._target)
            ends.append(there)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_hand_on(reader, there))
                tasks.create_task(_hand_on(there_reader, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in ends:
                end.transport.abort()
            self._connections.discard(task)


async def _hand_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    while data := await source.read(2**16):
        to.write(data)
        await to.drain()
    with contextlib.suppress(OSError):
        to.write_eof()
