"""What one event of a claim costs, with Kopf as it comes and as we set it, and what a claim costs in memory."""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from bench.operating.crowd import Crowd
from harness.controlplane import ControlPlane
from harness.processes import DIES_WITH_PARENT

How = Literal["ours", "stock", "traced"]

CHANGED: Final = 100
"""Claims, each of a node of its own where there are as many, so that decisions have the same to do in each fleet."""
_ROUNDS: Final = 5
"""So often is each released and allocated again."""


class Cost(NamedTuple):
    seconds: float
    """Of the processor, for each event."""
    resident_mib: float
    """Before the events, after all lists."""


class Way(NamedTuple):
    """Of a change, from the watch until all that follows from it is written and has come back."""

    functions: int
    modules: int


class Handling:
    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child

    async def told(self) -> Mapping[str, Any]:
        assert self._child.stdout is not None
        while line := await self._child.stdout.readline():
            with contextlib.suppress(json.JSONDecodeError):
                figures: Mapping[str, Any] = json.loads(line)
                return figures
        raise RuntimeError("the process ended before it told its figures")


@asynccontextmanager
async def handling(kubeconfig: Path, how: How, *, log: Path) -> AsyncIterator[Handling]:
    argv = [*DIES_WITH_PARENT, sys.executable, "-m", "bench.operating.handling", str(kubeconfig), how]
    with log.open("ab") as output:
        child = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=output)
        try:
            yield Handling(child)
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()


async def resident_mib(control_plane: ControlPlane) -> float:
    """When it knows all that there is."""
    log = control_plane.directory / "logs" / "handling-nothing.log"
    async with handling(control_plane.kubeconfig, "ours", log=log) as process:
        resident: float = (await process.told())["resident"]
        return resident


async def cost(control_plane: ControlPlane, crowd: Crowd, how: How) -> Cost:
    log = control_plane.directory / "logs" / f"handling-{how}.log"
    async with handling(control_plane.kubeconfig, how, log=log) as process:
        ready = await process.told()
        await crowd.mark("begin")
        for do in (crowd.release, crowd.allocate) * _ROUNDS:
            await crowd.each(do, range(min(CHANGED, crowd.claims)))
        await crowd.mark("end")
        told = await process.told()
        await crowd.unmark()
    return Cost(told["cpu"] / told["events"], ready["resident"])


async def ways(control_plane: ControlPlane, *changes: Awaitable[object]) -> list[Way]:
    """Each change is made when all that followed from the one before has happened."""
    log = control_plane.directory / "logs" / "handling-traced.log"
    async with handling(control_plane.kubeconfig, "traced", log=log) as process:
        await process.told()
        told = []
        for change in changes:
            await change
            told.append(Way(**await process.told()))
    return told
