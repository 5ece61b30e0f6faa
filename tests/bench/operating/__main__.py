"""`make bench-operator`: the operator before a thousand nodes and ten thousand claims, on a real API server."""

import argparse
import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Final

from agent.on_cluster import Admin
from bench import document
from bench.figures import HEADER, Figure, absolute
from bench.operating import decisions, events, whole
from bench.operating.crowd import Crowd
from bench.operating.events import Cost
from controller.bed import Operator, install
from harness import toolchain
from harness.controlplane import ControlPlane

_EVENT: Final = "an event of a claim, CPU"


async def measure(*, nodes: int, claims: int) -> list[Figure]:
    async with ControlPlane() as control_plane, Admin(control_plane) as admin:
        await install(control_plane)
        # Nobody is to free the devices of claims that no pod uses.
        for component in (control_plane.scheduler, control_plane.controller_manager):
            os.kill(component.pid, signal.SIGSTOP)
        crowd = Crowd(admin)
        await crowd.grow(nodes=nodes // 10, claims=claims // 10)
        costs = [await _costs(control_plane, crowd)]
        await crowd.grow(nodes=nodes, claims=claims // 10)
        few = await events.resident_mib(control_plane)
        await crowd.grow(nodes=nodes, claims=claims)
        many = await events.resident_mib(control_plane)
        costs.append(await _costs(control_plane, crowd))
        operator = await Operator.of(control_plane)
        # It writes what has never been written; then once more, with nothing to do.
        await whole.start(operator)
        await operator.stop()
        start = await whole.start(operator)
        rest = await whole.rest(operator)
        policy = await whole.policy(operator, admin, crowd)
        await crowd.grow(nodes=3 * nodes, claims=claims)
        costs.append(await _costs(control_plane, crowd))
    sizes = f"{nodes:,} nodes x 8 GPUs, {claims:,} claims"
    return [
        absolute(f"ready after a start, {sizes}", start.seconds, "s", at_most=5),
        absolute("CPU until then", start.cpu, "s", at_most=5),
        absolute("resident memory at rest", start.resident_mib, "MiB", at_most=250),
        absolute("resident memory, most", start.peak_mib, "MiB", at_most=250),
        *_of_events(costs, (nodes // 10, nodes, 3 * nodes)),
        absolute(
            "kept for a claim and its share of a node",
            (many - few) * 1024 / (claims - claims // 10),
            "KiB",
            at_most=10,
        ),
        _ratio(
            f"a policy applied until {nodes:,} NodeSharings are written",
            policy.seconds,
            policy.bare,
            "writing the same bytes",
            at_most=1.3,
        ),
        absolute("at rest, writes a minute", rest.writes_a_minute, "", at_most=0),
        absolute("at rest, share of a core", rest.share_of_a_core * 100, "%", at_most=1),
        *_of_decisions((nodes // 10, nodes, 3 * nodes)),
    ]


async def _costs(control_plane: ControlPlane, crowd: Crowd) -> tuple[Cost, Cost]:
    """With our settings, and with those that Kopf has by itself."""
    return await events.cost(control_plane, crowd, "ours"), await events.cost(control_plane, crowd, "stock")


def _of_events(costs: Sequence[tuple[Cost, Cost]], sizes: Sequence[int]) -> list[Figure]:
    figures = []
    for size, (ours, stock) in zip(sizes, costs, strict=True):
        name = f"{_EVENT}, {size:,} nodes"
        figures.append(_ratio(name, ours.seconds, stock.seconds, "Kopf as it comes, with our handlers", at_most=1))
    ours, stock = costs[1]
    figures.append(absolute(f"{_EVENT}", ours.seconds * 1e6, "us", at_most=1500))
    most, least = (of(pair[0].seconds for pair in costs) for of in (max, min))
    figures.append(_ratio(f"{_EVENT}, most of these", most, least, "least of these", at_most=1.25))
    figures.append(
        _ratio(
            "memory, with claims", ours.resident_mib, stock.resident_mib, "Kopf as it comes", at_most=0.8, unit="MiB"
        )
    )
    return figures


def _of_decisions(sizes: Sequence[int]) -> list[Figure]:
    figures = []
    for size in sizes:
        seconds = decisions.measure(size)
        name = f"decision, {size:,} nodes x 8 GPUs"
        figures += [
            absolute(f"{name}, from nothing", seconds.cold, "s", at_most=max(1, size / 1000)),
            absolute(f"{name}, one GPU changed", seconds.one_gpu * 1e3, "ms", at_most=2),
            absolute(f"{name}, one claim more", seconds.one_claim * 1e3, "ms", at_most=2),
        ]
    return figures


def _ratio(name: str, value: float, of: float, yardstick: str, *, at_most: float, unit: str = "ms") -> Figure:
    scale = 1000 if unit == "ms" else 1
    told = f"{yardstick} ({of * scale:.2f} {unit})"
    return Figure(
        name, f"{value / of:.2f} ({value * scale:.2f} {unit})", told, f"<= {at_most:g}", value <= at_most * of
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.operating", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--claims", type=int, default=10_000)
    args = parser.parse_args()
    toolchain.build()
    load = os.getloadavg()[0]
    figures = asyncio.run(measure(nodes=args.nodes, claims=args.claims))
    table = "\n".join([HEADER, *(figure.row() for figure in figures)])
    text = f"{table}\n\nThe machine's load before it began: {load:.1f} on {os.cpu_count()} cores."
    print(text)
    document.write("make bench-operator", text)


if __name__ == "__main__":
    main()
