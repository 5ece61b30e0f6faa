"""Many connect to the agent's port at once, as any pod may: probes are answered and claims prepared all the same."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from agent.on_cluster import EXCLUSIVE, TIME_SLICING, GpuNode
from harness.eventually import PATIENCE
from harness.processes import DIES_WITH_PARENT

pytestmark = pytest.mark.cluster

# From several addresses, as pods have them: connections that say nothing, that send a byte now and then, that send
# nonsense, and that ask for metrics and do not read them. What is refused comes again.
FLOOD: Final = """
import selectors, socket, sys, time

KINDS = (b"", b"GET /healthz HTTP/1.1\\r\\nHost:", b"\\x00" * 4096, b"GET /metrics HTTP/1.1\\r\\n\\r\\n")
port, count = int(sys.argv[1]), 0
kept, refused = {}, 0
while True:
    while len(kept) < 400:
        one = socket.socket()
        one.bind((f"127.0.1.{1 + count % 12}", 0))
        one.setblocking(False)
        try:
            one.connect(("127.0.0.1", port))
        except BlockingIOError:
            pass
        kept[one] = KINDS[count % len(KINDS)]
        count += 1
    for one, words in list(kept.items()):
        try:
            one.send(words or b"")
            if words.startswith(b"GET /healthz"):
                one.send(b"x")
            if not words.startswith(b"GET /metrics") and one.recv(1) == b"":
                raise ConnectionResetError
        except BlockingIOError:
            continue
        except OSError:
            one.close()
            del kept[one]
    print(count, flush=True)
    time.sleep(0.02)
"""
PROBES: Final = 20
# `timeoutSeconds` of the probes is 5.
ANSWERED_WITHIN: Final = 5.0
FILES: Final = 200
"""More than an agent and all connections that it keeps have open."""


@asynccontextmanager
async def flooded(port: int) -> AsyncIterator[None]:
    argv = (*DIES_WITH_PARENT, sys.executable, "-c", FLOOD, str(port))
    child = await asyncio.create_subprocess_exec(*argv, stdout=PIPE)
    assert child.stdout is not None

    async def until(count: int) -> None:
        assert child.stdout is not None
        while line := await child.stdout.readline():
            if int(line) >= count:
                return
        raise AssertionError("the flood has ended")

    try:
        await asyncio.wait_for(until(2000), PATIENCE)
        async with asyncio.TaskGroup() as tasks:
            goes_on = tasks.create_task(until(sys.maxsize))
            yield
            goes_on.cancel()
    finally:
        child.kill()
        await child.wait()


async def probe(listening: dict[str, Any], path: str) -> bytes:
    """The first line of the answer."""
    async with asyncio.timeout(ANSWERED_WITHIN):
        reader, writer = await asyncio.open_connection(listening["host"], listening["port"])
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        line = await reader.readline()
        writer.close()
        return line.strip()


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def test_a_flood_keeps_out_neither_probes_nor_claims(gpu_node: GpuNode) -> None:
    node = gpu_node
    await node.decide(TIME_SLICING, EXCLUSIVE)
    await node.offers("gpu-0-timeslicing", "gpu-1")
    listening, pid = node.log("listening")[-1], node.agent.pid
    async with flooded(listening["port"]):
        answers = [await probe(listening, path) for path in ("/healthz", "/readyz") * (PROBES // 2)]
        assert answers == [b"HTTP/1.1 200 OK"] * PROBES
        for _ in range(5):
            claim = await node.claim(node.shared())
            assert not (await node.kubelet.prepare(claim))[claim.uid].error
            assert (await node.kubelet.unprepare(claim))[claim.uid] == ""
        assert open_files(pid) < FILES
        answers = [await probe(listening, "/healthz") for _ in range(PROBES)]
        assert answers == [b"HTTP/1.1 200 OK"] * PROBES
    assert (node.agent.pid, node.agent.running) == (pid, True)
