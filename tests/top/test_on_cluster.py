"""`gpusharing top` on a real API server: by an administrator, and by a tenant; once, and live in a terminal."""

import asyncio
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.on_cluster import RESOURCE
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.fleet import LiveLists
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.snapshots.world import World
from harness.eventually import PATIENCE, eventually
from harness.readable import is_readable
from top.place import Place, place, shared_fleet

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def world() -> World:
    return shared_fleet().world()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: Path, world: World) -> AsyncIterator[Place]:
    async with place() as found:
        await found.fill(world)
        yield found


async def top(kubeconfig: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "gpusharing", "top", *arguments, "--kubeconfig", str(kubeconfig)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


async def as_json(kubeconfig: Path) -> Any:
    return json.loads(await top(kubeconfig, "-o", "json"))


async def everything(kubeconfig: Path) -> str:
    return "\n".join([await top(kubeconfig, *one) for one in ((), ("-o", "csv"), ("-g", "namespace", "-o", "yaml"))])


async def tenant(cluster: Place, name: str, *, may_read_node_sharings: bool = False) -> Path:
    kubectl = cluster.control_plane.kubectl
    await kubectl("create", "rolebinding", name, "-n", "ml", "--clusterrole=view", f"--user={name}")
    if may_read_node_sharings:
        await kubectl("create", "clusterrole", name, "--verb=get,list,watch", "--resource=nodesharings.gpusharing.dev")
        await kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={name}")
    path = await cluster.control_plane.user_kubeconfig(name)
    await kubectl("config", "set-context", "--current", "--namespace=ml", kubeconfig=path)
    return path


def holders(found: Any) -> dict[str, list[str]]:
    """By GPU."""
    return {
        f"{node['name']}/{gpu['name']}": [f"{one['namespace']}/{one['pods'][0]}" for one in gpu["holders"]]
        for node in found["nodes"]
        for gpu in node["gpus"]
        if gpu["holders"] or gpu["hiddenClaims"]
    }


async def test_an_administrator_sees_who_is_where(cluster: Place) -> None:
    found = await as_json(cluster.control_plane.kubeconfig)
    assert holders(found) == {
        "node-0/gpu-0": ["ml/train-0", "vision/camera-0"],
        "node-0/gpu-1": ["vision/camera-1"],
        "node-0/gpu-2": ["vision/camera-2", "ml/rank-0"],
        "node-0/gpu-3": ["vision/camera-3"],
    }
    assert (found["total"]["gpus"], found["total"]["gpusInUse"], found["total"]["claims"]) == (8, 4, 6)
    assert [one["name"] for one in found["namespaces"]] == ["ml", "vision"]
    (waiting,) = found["waiting"]
    assert (waiting["pod"], waiting["finding"]["code"]) == ("wide", "GSH0235")
    assert [one["code"] for one in found["notes"]] == ["GSH0103"], "there are no agents that measure"


async def test_of_others_a_tenant_sees_only_how_many_they_are(cluster: Place) -> None:
    jane = await tenant(cluster, "jane", may_read_node_sharings=True)
    found, text = await as_json(jane), await everything(jane)
    assert holders(found) == {
        "node-0/gpu-0": ["ml/train-0"],
        "node-0/gpu-1": [],
        "node-0/gpu-2": ["ml/rank-0"],
        "node-0/gpu-3": [],
    }
    assert [gpu["hiddenClaims"] for gpu in found["nodes"][0]["gpus"]] == [1, 1, 1, 1]
    assert not re.search("vision|camera", f"{found}{text}")
    assert "1 of other namespaces" in text
    everybody = await as_json(cluster.control_plane.kubeconfig)
    for name in ("gpus", "gpusInUse", "claims", "ratio"):
        assert found["total"][name] == everybody["total"][name], name
    assert "GSH0101" in [one["code"] for one in found["notes"]]


async def test_a_tenant_who_sees_no_node_sharing_is_told_so(cluster: Place) -> None:
    joe = await tenant(cluster, "joe")
    found, text = await as_json(joe), await top(joe)
    assert holders(found) == {"node-0/gpu-0": ["ml/train-0"], "node-0/gpu-2": ["ml/rank-0"]}
    assert not re.search("vision|camera", f"{found}{text}")
    assert "nodesharings may not be read, so GPUs are known only by the claims" in " ".join(text.split())
    assert [one["pod"] for one in found["waiting"]] == ["wide"]


async def test_with_another_prometheus_it_says_that_it_does_not_answer(cluster: Place) -> None:
    command = [sys.executable, "-m", "gpusharing", "top", "--prometheus", "http://127.0.0.1:1"]
    command += ["--kubeconfig", str(cluster.control_plane.kubeconfig)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Prometheus at http://127.0.0.1:1 does not answer" in done.stderr


# ---------------------------------------------------------------------------------------------------------------- live


class Terminal:
    """What a program draws, without colours, in a terminal of 100 columns and 30 lines."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self._screen = screen
        self.drawn = b""

    def until(self, is_there: Callable[[bytes], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not is_there(self.drawn):
            assert time.monotonic() < ends, self.drawn.decode(errors="replace")[-4000:]
            if is_readable(self._screen, within=1):
                try:
                    self.drawn += os.read(self._screen, 65536)
                except OSError:
                    assert is_there(self.drawn), self.drawn.decode(errors="replace")[-4000:]

    def press(self, keys: bytes) -> None:
        os.write(self._screen, keys)


@contextmanager
def in_terminal(*command: str) -> Iterator[Terminal]:
    screen, side = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        # Ctrl-C is for the program that the terminal belongs to.
        ["setsid", "--ctty", sys.executable, "-m", "gpusharing", *command],
        stdin=side,
        stdout=side,
        stderr=side,
        env=environment | {"TERM": "xterm-256color", "NO_COLOR": "1"},
    )
    os.close(side)
    try:
        yield Terminal(process, screen)
    finally:
        process.kill()
        process.wait()
        os.close(screen)


async def test_live_it_draws_what_changes_and_leaves_the_terminal_as_it_was(cluster: Place, world: World) -> None:
    kubeconfig = str(cluster.control_plane.kubeconfig)
    with in_terminal("top", "--watch", "--kubeconfig", kubeconfig) as terminal:
        await asyncio.to_thread(terminal.until, lambda drawn: b"ml/train-0" in drawn and b"1 pod waits" in drawn)
        assert b"\x1b[?1049h" in terminal.drawn, "it draws beside what was on the screen"
        assert b"\x1b[36m" not in terminal.drawn, "colours are not wanted"
        assert b"ml/late" not in terminal.drawn
        late = json.loads(json.dumps(world.claims[0]).replace("train-0", "late").replace("node-0", "node-1"))
        await cluster.add_claim(late)
        await asyncio.to_thread(terminal.until, lambda drawn: b"ml/late" in drawn and b"5 in use" in drawn)
        seen = len(terminal.drawn)
        await cluster.admin.call("DELETE", f"{RESOURCE}/namespaces/ml/resourceclaims/late")
        await asyncio.to_thread(terminal.until, lambda drawn: b"4 in use" in drawn[seen:])
        terminal.press(b"\x03")
        await asyncio.to_thread(terminal.until, lambda drawn: b"\x1b[?1049l" in drawn and b"\x1b[?25h" in drawn)
        assert await asyncio.to_thread(terminal.process.wait, PATIENCE) == 0
        assert b"Traceback" not in terminal.drawn


async def test_live_it_outlives_the_api_server(cluster: Place, world: World) -> None:
    def names(live: LiveLists) -> set[str]:
        lists = live.read()
        return {one.metadata.name for one in lists.claims.objects} if lists else set()  # type: ignore[attr-defined]

    with Client(access(cluster.control_plane.kubeconfig, None)) as client:
        live = LiveLists(client, "ml")

        async def sees(*expected: str) -> None:
            assert names(live) >= set(expected)
            assert live.problem == ""

        await eventually(lambda: sees("train-0"))
        await cluster.control_plane.apiserver.kill()

        async def says_so() -> None:
            assert live.problem

        await eventually(says_so)
        assert "train-0" in names(live), "the last that is known"
        await cluster.control_plane.apiserver.start()
        await cluster.add_claim(json.loads(json.dumps(world.claims[0]).replace("train-0", "later")))
        await eventually(lambda: sees("train-0", "later"))


async def test_without_our_kinds_it_says_that_nothing_is_installed(cluster: Place) -> None:
    """The last one: it takes the kinds away."""
    await cluster.control_plane.kubectl("delete", "crd", "nodesharings.gpusharing.dev", "--wait=false")

    async def says_so() -> None:
        found = await as_json(cluster.control_plane.kubeconfig)
        assert "GSH0102" in [one["code"] for one in found["notes"]]
        assert holders(found)["node-0/gpu-3"] == ["vision/camera-3"]

    await eventually(says_so)
