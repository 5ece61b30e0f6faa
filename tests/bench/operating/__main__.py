"""`make bench-operator`: the operator before a thousand nodes and ten thousand claims, on a real API server."""

import argparse
import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import gpusharing
from bench import document
from bench.figures import HEADER, Figure, absolute
from bench.operating import decisions, events, page, surroundings, whole
from bench.operating.crowd import TEAMS, Crowd, control_plane_alone
from bench.operating.events import Cost
from controller.bed import Operator
from harness import toolchain
from harness.controlplane import ControlPlane

_EVENT: Final = "an event of a claim, CPU"
_NODES: Final = 1000
_LINES_BEFORE: Final = 10_106
"""At commit 47d2797, counted in the same way."""


async def measure(nodes: int) -> str:
    """Table and text."""
    figures = await _of_fleet(nodes, claims=10 * nodes)
    waiting = 5 * nodes
    costs = await surroundings.measure(nodes=nodes, claims=nodes, waiting=waiting)
    figures += [*_of_surroundings(costs, nodes, waiting), _of_page(nodes, waiting)]
    figures += _of_decisions((nodes // 10, nodes, 3 * nodes))
    table = "\n".join([HEADER, *(figure.row() for figure in figures)])
    return f"{table}\n\n{_of_code(costs, nodes)}"


async def _of_fleet(nodes: int, claims: int) -> list[Figure]:
    async with control_plane_alone() as (control_plane, admin):
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
        edit = await whole.edit(operator, admin, crowd)
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
            f"a policy edited until {nodes:,} NodeSharings are written",
            edit.seconds,
            edit.bare,
            "parallel requests with the same bytes",
            at_most=1.25,
        ),
        absolute("at rest, writes a minute", rest.writes_a_minute, "", at_most=0),
        absolute("at rest, share of a core", rest.share_of_a_core * 100, "%", at_most=1),
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
    figures.append(absolute(f"{_EVENT}, {sizes[1]:,} nodes, by itself", ours.seconds * 1e3, "ms", at_most=1.5))
    most, least = (of(pair[0].seconds for pair in costs) for of in (max, min))
    figures.append(_ratio(f"{_EVENT}, most of these", most, least, "least of these", at_most=1.5))
    figures.append(
        _ratio(
            "memory, with claims", ours.resident_mib, stock.resident_mib, "Kopf as it comes", at_most=0.8, unit="MiB"
        )
    )
    return figures


def _of_surroundings(costs: surroundings.Costs, nodes: int, waiting: int) -> list[Figure]:
    tenants = f"{TEAMS} policies with tenants in {surroundings.NAMESPACES} namespaces"
    return [
        _ratio(f"{_EVENT}, {nodes:,} nodes, {tenants}", costs.beside_tenants, costs.alone, "without", at_most=1.3),
        _ratio(
            f"the same, and {waiting:,} claims that wait for these policies",
            costs.beside_waiting,
            costs.beside_tenants,
            "without these claims",
            at_most=1.3,
        ),
    ]


def _of_page(nodes: int, waiting: int) -> Figure:
    claims = 10 * nodes
    seconds = page.measure(nodes=nodes, claims=claims, waiting=waiting, namespaces=surroundings.NAMESPACES)
    sizes = f"{nodes:,} nodes x 8 GPUs, {claims:,} claims, {waiting:,} that wait"
    tenants = f"{TEAMS} policies with quotas in {surroundings.NAMESPACES} namespaces"
    return absolute(f"metrics page, {sizes}, {tenants}", seconds * 1e3, "ms", at_most=200)


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


def _lines() -> int:
    """Of the operator's code, with blank lines and comments."""
    package = Path(gpusharing.__file__).parent
    files = [file for room in ("core", "controller", "kube") for file in (package / room).rglob("*.py")]
    return sum(len(file.read_text().splitlines()) for file in files)


def _of_code(costs: surroundings.Costs, nodes: int) -> str:
    claim, policy = costs.claim, costs.policy
    return (
        f"The operator's code (`core`, `controller` and `kube`) has {_lines():,} lines, comments and blank ones too.\n"
        f"At commit 47d2797 it had {_LINES_BEFORE:,}. From the watch until all that follows has been written and has\n"
        f"come back, the allocation of a claim calls {claim.functions} different functions of ours in {claim.modules}\n"
        f"modules, and the edit of a policy with {nodes // TEAMS:,} nodes calls {policy.functions} in {policy.modules}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.operating", description=__doc__)
    parser.add_argument("--nodes", type=int, default=_NODES, help="only the default is written into the document")
    args = parser.parse_args()
    toolchain.build()
    load = os.getloadavg()[0]
    text = asyncio.run(measure(args.nodes))
    text += f"\n\nThe machine's load before it began: {load:.1f} on {os.cpu_count()} cores."
    print(text)
    if args.nodes == _NODES:
        document.write("make bench-operator", text)


if __name__ == "__main__":
    main()
