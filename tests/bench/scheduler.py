"""`make bench-scheduler`: how fast the real scheduler is with what we publish, beside what it is without us."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final, NamedTuple

from bench import document
from bench.figures import HEADER, Figure, at_least, p50
from bench.fleet import A_PART, A_SHARE, A_WHOLE, Fleet, Speed, Wish
from bench.layouts import (
    DYNAMIC_MIG,
    EVERY_MODE,
    IN_USE,
    NODES,
    OUR_SHARES,
    OUR_WHOLE,
    PLAIN_SHARES,
    PLAIN_WHOLE,
    Layout,
)
from harness import toolchain

ROUNDS: Final = 5
PODS: Final = 50
"""Few enough that half of the GPUs are in use all the time."""
FEW, MANY = 500, 5000
"""Shares in the cluster."""
_EACH_ONCE: Final = len(NODES) * len(IN_USE)


class Run(NamedTuple):
    """Pods that want the same of a fleet."""

    layout: Layout
    held: int
    wish: Wish


class Goal(NamedTuple):
    what: str
    run: Run
    unit: Run
    yardstick: str
    least: float


def _every_mode(wish: Wish, held: int = FEW) -> Run:
    return Run(EVERY_MODE, held, wish)


_PLAIN_WHOLE: Final = Run(PLAIN_WHOLE, _EACH_ONCE, A_WHOLE)
_PLAIN_SHARES: Final = Run(PLAIN_SHARES, FEW, A_SHARE)
_DYNAMIC_MIG: Final = Run(DYNAMIC_MIG, _EACH_ONCE, A_PART)

GOALS: Final = (
    Goal("only whole GPUs offered", Run(OUR_WHOLE, _EACH_ONCE, A_WHOLE), _PLAIN_WHOLE, "without us", 0.95),
    Goal("only time-sliced GPUs offered", Run(OUR_SHARES, FEW, A_SHARE), _PLAIN_SHARES, "without us", 0.95),
    Goal("all modes offered, a whole GPU", _every_mode(A_WHOLE), _PLAIN_WHOLE, "whole GPUs without us", 0.6),
    Goal("all modes offered, a share", _every_mode(A_SHARE), _PLAIN_SHARES, "time-sliced GPUs without us", 0.85),
    Goal("all modes offered, MIG 1g.10gb", _every_mode(A_PART), _DYNAMIC_MIG, "NVIDIA's dynamic MIG", 1.2),
    *(
        Goal(f"the same, {what}, {MANY:,} shares", _every_mode(wish, MANY), _every_mode(wish), f"{FEW} shares", 0.8)
        for what, wish in (("a whole GPU", A_WHOLE), ("a share", A_SHARE), ("MIG 1g.10gb", A_PART))
    ),
)


async def measure() -> list[Figure]:
    """By turns, to and fro, so that a machine that gets slower is slower for all."""
    runs = list(dict.fromkeys(run for goal in GOALS for run in (goal.unit, goal.run)))
    speeds: dict[Run, list[Speed]] = defaultdict(list)
    async with AsyncExitStack() as stack:
        fleets: dict[tuple[Layout, int], Fleet] = {}
        for run in runs:
            if (key := (run.layout, run.held)) not in fleets:
                fleets[key] = await stack.enter_async_context(Fleet(run.layout, held=run.held))
            # Once for nothing: what a scheduler does once is done.
            await fleets[key].measure(run.wish, pods=PODS)
        for number in range(ROUNDS):
            for run in runs if number % 2 else reversed(runs):
                speed = await fleets[run.layout, run.held].measure(run.wish, pods=PODS)
                speeds[run].append(speed)
                print(f"{run.layout.name}, {run.held} held, {run.wish.type}: {speed}", flush=True)
    return [_figure(goal, speeds[goal.run], speeds[goal.unit]) for goal in GOALS]


def _figure(goal: Goal, speeds: Sequence[Speed], units: Sequence[Speed]) -> Figure:
    pairs = list(zip(speeds, units, strict=True))
    return at_least(
        goal.what,
        p50([speed.pods_per_second / unit.pods_per_second for speed, unit in pairs]),
        note=f"by its CPU time {p50([unit.cpu_per_pod / speed.cpu_per_pod for speed, unit in pairs]):.2f}",
        yardstick=f"{goal.yardstick} ({p50([unit.pods_per_second for unit in units]):.0f} pods/s)",
        least=goal.least,
    )


def main() -> None:
    toolchain.build()
    load = os.getloadavg()[0]
    figures = asyncio.run(measure())
    table = "\n".join([HEADER, *(figure.row() for figure in figures)])
    text = f"{table}\n\nThe machine's load before it began: {load:.1f} on {os.cpu_count()} cores."
    print(text)
    document.write("make bench-scheduler", text)


if __name__ == "__main__":
    main()
