"""A run of faults, drawn from a seed, while pods come and go on a real node with simulated GPUs.

python -m chaos.run --minutes 10 --seed 7
"""

import argparse
import asyncio
import math
import random
import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from agent.on_cluster import RESOURCE, SHARINGS, Admin
from chaos.churn import STRANGERS, Churn
from chaos.faults import FAULTS, Fault
from chaos.invariants import Invariant, Look, Violation, look_at, violations
from chaos.programs import Programs, processor_seconds
from chaos.scene import Scene
from harness import toolchain
from harness.gpu_cluster import GpuCluster
from harness.mounts import daemons_in
from harness.node import node_unavailable_reason

LOOK_EVERY: Final = 0.5
LOGS: Final = Path(".chaos")
_MOST_ENDS: Final = 4
"""So often a program may end by itself in one fault: after more it would be in a crash loop."""
_GONE_WITHIN: Final = 90.0
_QUIET_FOR: Final = 10.0
# What pods have taken is narrowed a while after; until then there is work.
_TAKEN_WAIT: Final = 10.0
_QUIET_WITHIN: Final = 90.0
_MOST_OF_A_CORE: Final = 0.1
_OURS: Final = ("agent", "operator")


@asynccontextmanager
async def chaos_cluster() -> AsyncIterator[GpuCluster]:
    options = ["--taken-wait", f"{_TAKEN_WAIT:g}"]
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:8", agent_options=options) as cluster:
        yield cluster


@dataclass
class Times:
    """How long it took until everything worked again, by the kind of fault."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def __str__(self) -> str:
        lines = [f"{'fault':<32}{'times':>6}{'min':>8}{'median':>8}{'max':>8}  s until everything works"]
        for name, all_ in sorted(self.seconds.items()):
            figures = (min(all_), statistics.median(all_), max(all_))
            lines.append(f"{name:<32}{len(all_):>6}" + "".join(f"{figure:>8.1f}" for figure in figures))
        return "\n".join(lines)


def draw(seed: int, faults: Sequence[Fault]) -> Iterator[tuple[Fault, random.Random]]:
    """For ever; all of them before one comes again. Each has dice of its own, so that nothing depends on how long those
    before it took."""
    dice = random.Random(seed)  # noqa: S311
    while True:
        for fault in dice.sample(faults, len(faults)):
            yield fault, random.Random(dice.random())  # noqa: S311


class Run:
    def __init__(self, cluster: GpuCluster, admin: Admin, *, seed: int, patience: float = 1) -> None:
        """`patience`: so many times as long as usual everything may take, on a machine with more to do than it can."""
        self._cluster = cluster
        self._admin = admin
        self._patience = patience
        self._as_found = cluster.sim_node.gpus()
        self._began = time.monotonic()
        self.programs = Programs(cluster)
        self.churn = Churn(cluster, admin, f"{seed}/churn", self.note)
        self.scene = Scene(cluster, admin, self.programs, self.churn, random.Random(), self.note)  # noqa: S311
        self.history: list[str] = []
        self.times = Times()

    def note(self, what: str) -> None:
        line = f"{time.monotonic() - self._began:7.1f} s  {what}"
        self.history.append(line)
        print(line, flush=True)

    async def go(self, faults: Iterable[tuple[Fault, random.Random]], *, seconds: float = math.inf) -> None:
        """Through all of them, or until so many seconds are over. Raises the first violation. `churn.prepare` comes
        before."""
        try:
            async with asyncio.TaskGroup() as tasks:
                beside = [tasks.create_task(work()) for work in (self.programs.keep, self.churn.run, self._watch)]
                await self._live_through_all(faults, seconds)
                await self._is_quiet()
                await self.nothing_is_left()
                for task in beside:
                    task.cancel()
        except* Violation as found:
            violation = next(_leaves(found))
            self.note(str(violation))
            raise violation from None

    async def _live_through_all(self, faults: Iterable[tuple[Fault, random.Random]], seconds: float) -> None:
        until = time.monotonic() + seconds
        await self._works_again("the beginning", within=60)
        for fault, dice in faults:
            if time.monotonic() > until:
                return
            self.scene.dice = dice
            await self._live_through(fault)

    async def _live_through(self, fault: Fault) -> None:
        await asyncio.sleep(self.scene.dice.uniform(0, 2))
        self.programs.ended.clear()
        lasts = self.scene.dice.uniform(*fault.lasts)
        self.note(f"FAULT {fault.name}, for {lasts:.1f} s")
        async with fault.happen(self.scene):
            await asyncio.sleep(lasts)
        self.note(f"{fault.name} is over")
        took = await self._works_again(fault.name, within=fault.back_within)
        self.times.seconds[fault.name].append(took)
        self.note(f"everything works {took:.1f} s after {fault.name}")

    # -------------------------------------------------------------------------------------- what has to be true

    async def _watch(self) -> None:
        while True:
            self.judge(await self.look())
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> Look:
        # Not in the loop: hundreds of files of /proc.
        return await asyncio.to_thread(look_at, self.scene.sim, self.scene.state)

    def judge(self, look: Look) -> None:
        for violation in violations(look, strangers=STRANGERS, settings_hold=self.scene.settings_hold):
            raise violation
        self.churn.follow(look)
        for name, times in self.programs.ended.items():
            if times > _MOST_ENDS:
                last = self.programs[name].last_lines(3)
                raise Violation(Invariant.COMES_BACK, f"the {name} has ended {times} times by itself: {last}")

    async def _works_again(self, after: str, *, within: float) -> float:
        """The seconds until all pods work, also one that has come since, those that went have gone, and nothing is
        reported to be wrong."""
        began = time.monotonic()
        within *= self._patience
        self.churn.pause()
        fresh = None
        while True:
            missing = "the API server does not answer"
            with suppress(aiohttp.ClientError, AssertionError):
                fresh = fresh or await self.churn.begin("share")
                missing = await self._missing()
            took = time.monotonic() - began
            if not missing:
                break
            if took > within:
                raise Violation(Invariant.COMES_BACK, f"{within:g} s after {after}: {missing}")
            await asyncio.sleep(0.3)
        self.churn.all_work()
        self.scene.settings_hold = True
        self.churn.resume()
        return took

    async def _missing(self) -> str:
        """What does not work, if anything."""
        leaving = await self.churn.agree_with_api()
        if waiting := self.churn.waiting():
            return f"pods do not work: {', '.join(waiting)}"
        if leaving:
            return f"pods do not go: {', '.join(leaving)}"
        if not self.scene.settings_hold and (unset := [*violations(await self.look(), strangers=STRANGERS)]):
            return "; ".join(map(str, unset))
        status = (await self.scene.sharing()).get("status", {})
        wrong = [
            f"{item['type']}={item['status']} {item.get('reason')}: {item.get('message')}"
            for owner in (status, *status.get("gpus", []))
            for item in owner.get("conditions", [])
            if item["type"] in {"Ready", "Healthy"} and item["status"] != "True"
        ]
        return "; ".join(wrong)

    async def _is_quiet(self) -> None:
        """Pods work, and nothing happens to them."""
        self.churn.pause()
        began = time.monotonic()
        while busy := await self._activity():
            if time.monotonic() - began > _QUIET_WITHIN * self._patience:
                raise Violation(Invariant.QUIET, "; ".join(busy))
        self.note("it is quiet")

    async def _activity(self) -> list[str]:
        def seconds() -> dict[str, float]:
            return {name: processor_seconds(self.programs[name]) for name in _OURS}

        objects, processor = await self._versions(), seconds()
        await asyncio.sleep(_QUIET_FOR)
        written = [path for path, version in (await self._versions()).items() if objects.get(path) != version]
        used = {name: (after - processor[name]) / _QUIET_FOR for name, after in seconds().items()}
        busy = [f"{name} uses {part:.0%} of a core" for name, part in used.items() if part > _MOST_OF_A_CORE]
        return busy + [f"written within {_QUIET_FOR:g} s: {', '.join(written)}"] * bool(written)

    async def _versions(self) -> dict[str, str]:
        """Of all that our programs write."""
        found: dict[str, str] = {}
        for path in (
            SHARINGS,
            "/apis/gpusharing.dev/v1alpha1/sharingpolicies",
            f"{RESOURCE}/resourceslices",
            f"{RESOURCE}/resourceclaims",
            f"{RESOURCE}/deviceclasses",
            "/apis/events.k8s.io/v1/events",
        ):
            for item in (await self._admin.call("GET", path))["items"]:
                metadata = item["metadata"]
                found[f"{path}/{metadata.get('namespace', '')}/{metadata['name']}"] = metadata["resourceVersion"]
        return found

    async def nothing_is_left(self) -> None:
        """Once all pods have gone."""
        for witness in self.churn.present():
            await self.churn.end(witness)
        began = time.monotonic()
        while left := await self.left():
            if time.monotonic() - began > _GONE_WITHIN * self._patience:
                raise Violation(Invariant.ONE_MODE, f"{_GONE_WITHIN:g} s after all pods ended: {'; '.join(left)}")
            await asyncio.sleep(0.5)
        self.note("nothing is left")

    async def left(self) -> list[str]:
        node, state, sim = self._cluster.node, self.scene.state, self._cluster.sim_node
        left = [f"pod {id_}" for id_ in await self.churn.agree_with_api()]
        directories = (node.cdi_dirs[1], state / "claims", state / "journal")
        left += [f"MPS directory {name}" for name in daemons_in(self._cluster.mps_directory(node))]
        left += [str(path) for directory in directories if directory.is_dir() for path in directory.iterdir()]
        left += [f"MPS daemon {daemon.pid} of {daemon.pipe}" for daemon in sim.mps_daemons()]
        left += [
            f"claim {item['claim']} in the NodeSharing" for item in (await self.scene.sharing())["status"]["claims"]
        ]
        for now, before in zip(sim.gpus(), self._as_found, strict=True):
            if now != before:
                left.append(f"GPU {now} was {before}")
        return left

    # ----------------------------------------------------------------------------------------------- what is told

    def keep_logs(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        (directory / "history").write_text("\n".join(self.history) + "\n")
        shutil.copytree(self._cluster.directory / "logs", directory / "control-plane")
        shutil.copytree(self._cluster.node.directory / "logs", directory / "node")
        for name, kept in (("state", self.scene.state), ("cdi", self._cluster.node.directory / "cdi")):
            with suppress(OSError, shutil.Error):
                shutil.copytree(kept, directory / name, ignore=_only_files)


def _only_files(directory: str, entries: list[str]) -> list[str]:
    """No sockets and pipes."""
    return [entry for entry in entries if not ((path := Path(directory, entry)).is_file() or path.is_dir())]


def _leaves(group: BaseExceptionGroup[Violation]) -> Iterator[Violation]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def run(*, seconds: float, seed: int, faults: Collection[str], logs: Path, command: str) -> Run:
    """Prints and keeps what is needed to understand a violation, and raises it."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(chaos_cluster())
        admin = await stack.enter_async_context(Admin(cluster))
        one = Run(cluster, admin, seed=seed)
        try:
            await one.churn.prepare()
            await one.go(draw(seed, [FAULTS[name] for name in FAULTS if name in faults]), seconds=seconds)
        except BaseException as error:
            one.keep_logs(logs)
            print(f"\n{type(error).__name__}: {error}\n\nlogs, state and CDI specs: {logs}\nagain: {command}")
            raise
        return one


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--faults", default="", help="only these, with commas between; default: all")
    parser.add_argument(
        "--logs", type=Path, default=LOGS.absolute(), help="where they are kept if something is violated"
    )
    arguments = parser.parse_args()
    if reason := node_unavailable_reason():
        sys.exit(f"no cluster with a node here: {reason}")
    toolchain.build()
    command = f"make chaos MINUTES={arguments.minutes:g} SEED={arguments.seed}"
    chosen = [name for name in arguments.faults.split(",") if name]
    if unknown := set(chosen) - set(FAULTS):
        parser.error(f"no such faults: {', '.join(sorted(unknown))}; there are: {', '.join(FAULTS)}")
    if chosen:
        command += f" FAULTS='{arguments.faults}'"
    try:
        done = asyncio.run(
            run(
                seconds=60 * arguments.minutes,
                seed=arguments.seed,
                faults=chosen or [*FAULTS],
                logs=arguments.logs,
                command=command,
            )
        )
    except Violation:
        return 1
    print(f"seed {arguments.seed}\n{done.times}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
