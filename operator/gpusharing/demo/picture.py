"""What `gpusharing top` shows of the demo, and as it shows it."""

import asyncio
from collections.abc import Sequence
from typing import Final

import aiohttp

from gpusharing.cli.reading.agents import samples_of
from gpusharing.demo.cluster import (
    CLAIMS,
    CLASSES,
    NODE_SHARINGS,
    NODES,
    PODS,
    POLICIES,
    SLICES,
    TAINT_RULES,
    TEMPLATES,
    Cluster,
)
from gpusharing.demo.nodes import DemoNode
from gpusharing.explaining.scene import Scene
from gpusharing.kube.clock import now
from gpusharing.occupancy import of_scene, sharing
from gpusharing.occupancy.fleet import Fleet
from gpusharing.occupancy.usage import Sample, Usage, usage_of
from gpusharing.occupancy.waiting import to_explain, waiting, waiting_pods
from gpusharing.snapshots.world import World

_PATIENCE: Final = aiohttp.ClientTimeout(total=3)


def world_of(cluster: Cluster, *, minor: int) -> World:
    return World(
        minor=minor,
        taken_at=now(),
        nodes=cluster.all(NODES),
        pods=cluster.all(PODS),
        slices=cluster.all(SLICES),
        classes=cluster.all(CLASSES),
        claims=cluster.all(CLAIMS),
        templates=cluster.all(TEMPLATES),
        taint_rules=cluster.all(TAINT_RULES),
        policies=cluster.all(POLICIES),
        node_sharings=cluster.all(NODE_SHARINGS),
    )


def fleet(world: World, usage: Usage) -> Fleet:
    scene = Scene.of_file(world)
    sharings = sharing.lean().of_objects(world.node_sharings)
    pods = waiting_pods(world.pods, world.classes)
    explained = waiting(pods, to_explain(pods, len(sharings)), scene)
    return of_scene.fleet_of(scene, sharings, usage, waiting=explained)


class Picture:
    """With the use of GPUs by the agents' own metrics."""

    def __init__(self, cluster: Cluster, nodes: Sequence[DemoNode], *, minor: int) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._minor = minor

    async def now(self) -> Fleet:
        async with aiohttp.ClientSession(timeout=_PATIENCE) as session:
            pages = await asyncio.gather(*(_page(session, node.metrics) for node in self._nodes))
        usage = usage_of(sample for page in pages for sample in page)
        return fleet(world_of(self._cluster, minor=self._minor), usage)


async def _page(session: aiohttp.ClientSession, url: str) -> list[Sample]:
    """Nothing while the agent starts."""
    try:
        async with session.get(url) as answer:
            return list(samples_of(await answer.text()))
    except (aiohttp.ClientError, TimeoutError):
        return []
