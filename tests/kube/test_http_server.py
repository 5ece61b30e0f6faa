"""Our HTTP server against well-behaved clients, and against whatever else reaches it."""

import asyncio
import socket
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final, TypeAlias

import aiohttp
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from bench.operating.process import cpu_seconds
from gpusharing.kube import http_server
from gpusharing.kube.address import Address
from gpusharing.kube.http_server import Answer, Pages, serving
from harness.eventually import PATIENCE
from harness.processes import DIES_WITH_PARENT

Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

ANY = Address("127.0.0.1", 0)
BIG = b"x" * 1_000_000
HUGE = b"x" * 30_000_000
"""More than the system keeps on its way."""


async def good() -> Answer:
    return Answer(body=b"good\n")


async def big() -> Answer:
    return Answer(content_type="application/octet-stream", body=BIG)


async def huge() -> Answer:
    return Answer(body=HUGE)


async def bad() -> Answer:
    return Answer(status=HTTPStatus.SERVICE_UNAVAILABLE, body=b"bad\n")


async def broken() -> Answer:
    raise RuntimeError("a mistake of ours")


PAGES: Pages = {"/good": good, "/big": big, "/huge": huge, "/bad": bad, "/broken": broken}


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Address]:
    async with serving(ANY, PAGES) as address:
        yield address


@asynccontextmanager
async def connected(server: Address, of: str = "127.0.0.1") -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection(*server, local_addr=(of, 0))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ask(server: Address, request: bytes) -> bytes:
    """The first line of the answer."""
    async with connected(server) as (reader, writer):
        try:
            writer.write(request)
            return (await asyncio.wait_for(reader.readline(), PATIENCE)).rstrip()
        except ConnectionError:
            # What was sent beyond what it reads.
            return b"reset"


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/good", 200, b"good\n"),
        ("/good?name[]=x", 200, b"good\n"),
        ("/big", 200, BIG),
        ("/bad", 503, b"bad\n"),
        ("/broken", 500, b""),
        ("/nowhere", 404, b""),
    ],
)
async def test_an_http_client_reads_all_answers(server: Address, path: str, status: int, body: bytes) -> None:
    async with aiohttp.ClientSession(f"http://{server.host}:{server.port}") as client:
        for _ in range(3):
            async with client.get(path) as response:
                assert (response.status, await response.read()) == (status, body)
                assert response.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /good HTTP/1.0\r\n\r\n", b"200 OK"),
        (b"GET /good HTTP/1.1\r\nHost: x\r\n\r\nGET /bad HTTP/1.1\r\n\r\n", b"200 OK"),
        (b"HEAD /good HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"POST /good HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405 Method Not Allowed"),
        (b"GET good HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET http://other/good HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET /good HTTP/2\r\n\r\n", b"400 Bad Request"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400 Bad Request"),
        (b"GET /good\r\n\r\n", b"400 Bad Request"),
        (b"GET /good HTTP/1.1 more\r\n\r\n", b"400 Bad Request"),
        (b"\r\n\r\n", b"400 Bad Request"),
        (b"GET /\xff\x00\xe2\x80 HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", b"431 Request Header Fields Too Large"),
        (b"GET /good HTTP/1.1\r\n" + b"A: b\r\n" * 5_000, b"431 Request Header Fields Too Large"),
    ],
)
async def test_requests(server: Address, request_: bytes, status: bytes) -> None:
    assert await ask(server, request_) in {b"HTTP/1.1 " + status, b"reset" if len(request_) > 8192 else b""}
    assert await ask(server, b"GET /good HTTP/1.1\r\n\r\n") == b"HTTP/1.1 200 OK"


@given(st.lists(st.binary(max_size=200) | st.sampled_from([b"GET ", b"/good", b" HTTP/1.1", b"\r\n", b"\r\n\r\n"])))
def test_garbage(pieces: list[bytes]) -> None:
    async def main() -> None:
        async with serving(ANY, PAGES) as server:
            async with connected(server) as (_, writer):
                for piece in pieces:
                    writer.write(piece)
                writer.write_eof()
            assert await ask(server, b"GET /good HTTP/1.1\r\n\r\n") == b"HTTP/1.1 200 OK"

    asyncio.run(main())


async def test_who_says_nothing_is_left_and_who_hangs_up_is_forgotten(
    server: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_PATIENCE", 0.1)
    async with connected(server) as (reader, silent), connected(server) as (_, gone):
        silent.write(b"GET /good HTTP/1.1\r\n")
        gone.write(b"GET /big HTTP/1.1\r\n\r\n")
        gone.transport.abort()
        assert await is_left(reader)
    assert await ask(server, b"GET /good HTTP/1.1\r\n\r\n") == b"HTTP/1.1 200 OK"


async def test_many_who_keep_their_connections_do_not_keep_out_others(
    server: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest makes room, unless it has just come: then a new one is refused."""
    monkeypatch.setattr(http_server, "_YOUNG", 0.5)
    async with AsyncExitStack() as stack:
        kept = [await stack.enter_async_context(connected(server)) for _ in range(3 * http_server._CONNECTIONS_OF_ONE)]
        first, last = kept[: http_server._CONNECTIONS_OF_ONE], kept[-1]
        assert await is_left(last[0])
        for reader, writer in first[:2]:
            writer.write(b"GET /bad HTTP/1.1\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 503")
        await stack.enter_async_context(connected(server))
        await stack.enter_async_context(connected(server))
        await asyncio.sleep(0.6)
        assert await ask(server, b"GET /good HTTP/1.1\r\n\r\n") == b"HTTP/1.1 200 OK"
        assert await is_left(first[2][0])


async def test_one_address_does_not_take_the_room_of_others(server: Address) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(2 * http_server._CONNECTIONS):
            await stack.enter_async_context(connected(server))
        reader, writer = await asyncio.open_connection(*server, local_addr=("127.0.0.2", 0))
        writer.write(b"GET /good HTTP/1.1\r\n\r\n")
        assert await asyncio.wait_for(reader.readline(), 5) == b"HTTP/1.1 200 OK\r\n"
        writer.close()
        await writer.wait_closed()


async def test_several_addresses_together_do_not_take_the_room_of_another(server: Address) -> None:
    """Whose connection stays until it is answered."""
    async with AsyncExitStack() as stack:
        crowd = [f"127.0.1.{number}" for number in range(1, 13)]
        for address in crowd * (http_server._CONNECTIONS_OF_ONE + 1):
            await stack.enter_async_context(connected(server, address))
        reader, writer = await stack.enter_async_context(connected(server, "127.0.0.2"))
        for address in crowd:
            await stack.enter_async_context(connected(server, address))
        writer.write(b"GET /good HTTP/1.1\r\n\r\n")
        assert await asyncio.wait_for(reader.readline(), PATIENCE) == b"HTTP/1.1 200 OK\r\n"


async def test_there_is_an_end_to_all_addresses_together(server: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_CONNECTIONS", 4)
    async with AsyncExitStack() as stack:
        for number in range(2, 6):
            await stack.enter_async_context(connected(server, f"127.0.0.{number}"))
        refused, _ = await stack.enter_async_context(connected(server, "127.0.0.6"))
        assert await is_left(refused)


async def test_an_answer_that_nobody_reads_is_given_up(server: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_PATIENCE", 0.2)
    async with connected(server) as (reader, writer):
        writer.write(b"GET /huge HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.6)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(len(HUGE)), PATIENCE)


async def is_left(reader: asyncio.StreamReader) -> bool:
    """Whether the other side hangs up without a word."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE) == b""
    except ConnectionResetError:
        return True


async def test_the_end_does_not_wait_for_clients() -> None:
    async with asyncio.timeout(PATIENCE):
        async with serving(ANY, PAGES) as server:
            reader, writer = await asyncio.open_connection(*server)
            assert await ask(server, b"GET /good HTTP/1.1\r\n\r\n") == b"HTTP/1.1 200 OK"
        assert await is_left(reader)
        writer.close()


async def test_an_address_that_is_taken(server: Address) -> None:
    with pytest.raises(OSError, match=r"(?i)address already in use"):
        async with serving(server, PAGES):
            raise AssertionError


FLOODED: Final = """
import asyncio, resource, sys, time
from gpusharing.kube.address import Address
from gpusharing.kube.http_server import Answer, serving

async def healthz():
    return Answer(body=b"%f\\n" % time.process_time())

async def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
    async with serving(Address("127.0.0.1", 0), {"/healthz": healthz}) as address:
        print(address.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def flooded(files: int) -> AsyncIterator[tuple[Address, asyncio.subprocess.Process]]:
    """A server in a process of its own that may open so many files, with 3,000 half-open connections."""
    argv = (*DIES_WITH_PARENT, sys.executable, "-c", FLOODED, str(files))
    child = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=STDOUT)
    assert child.stdout is not None
    port = 0
    while not port:
        line = await child.stdout.readline()
        port = int(line) if line.strip().isdigit() else 0
    kept = [socket.socket() for _ in range(3000)]
    try:
        for one in kept:
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(("127.0.0.1", port))
            await asyncio.sleep(0)
        for one in kept:
            with suppress(OSError):
                one.send(b"GET /healthz HTTP/1.1\r\nHost:")
        yield Address("127.0.0.1", port), child
    finally:
        for one in kept:
            one.close()
        if child.returncode is None:
            child.kill()
        await child.wait()


async def test_thousands_of_half_open_connections_cost_little_and_keep_no_probe_out() -> None:
    async with flooded(1024) as (server, child):
        await asyncio.sleep(1.2)
        probes = [await probe(server) for _ in range(20)]
        assert probes[-1] - probes[0] < 0.5
        child.kill()
        out, _ = await child.communicate()
        assert out.count(b"\n") < 10


async def test_without_file_descriptors_it_waits_and_says_so_once() -> None:
    """There are fewer than connections that it would keep."""
    async with flooded(12) as (_, child):
        before = cpu_seconds(child.pid)
        await asyncio.sleep(3)
        assert cpu_seconds(child.pid) - before < 0.5
    out, _ = await child.communicate()
    assert out.count(b"connections not accepted") == 1


async def probe(server: Address) -> float:
    """The processor time that the server has used."""
    async with connected(server, "127.0.0.9") as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 5)
        return float(answer.partition(b"\r\n\r\n")[2])
