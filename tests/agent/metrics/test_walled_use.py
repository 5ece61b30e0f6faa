"""Memory used and allowed, for claims around whose containers walls stand."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import pytest_asyncio

from agent.metrics.pages import samples_of
from agent.walls.preparing import NODE, REF, Agent, Claims, Ground, ground, offers, share
from controller.api_server import serving
from gpusharing import sim
from gpusharing.agent.containers.device_metadata import METADATA
from gpusharing.agent.containers.of_processes import ContainerClaims
from gpusharing.agent.metrics import catalogue, use
from gpusharing.agent.metrics.use import ClaimUse
from gpusharing.agent.steps import InternalErrors, Steps
from gpusharing.api.sharing.offers import Enforcement
from gpusharing.nvidia.memory_walls import MemoryLimit
from gpusharing.sim import cuda, faults
from nvidia.nodes import uuid, with_walls

GIB = 1024**3


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    return with_walls(sim.create(tmp_path / "node", "H100-80GB:2", driver="615"))


@pytest_asyncio.fixture
async def site(node: sim.SimNode, tmp_path: Path) -> AsyncIterator[Ground]:
    packaged = tmp_path / "packaged"
    packaged.write_text("#!/bin/true")
    # Two shares of one GPU are one amount of memory to those who pay for it.
    claims = Claims(share(0), share(1, "16Gi"), share(1, "8Gi", request="more", shareID="share-more"))
    async with serving(claims.server()) as api, ground(node, api, packaged) as made:
        yield made


@pytest_asyncio.fixture
async def agent(site: Ground, tmp_path: Path) -> Agent:
    agent = await site.agent(tmp_path / "agent", offers(Enforcement.PREFERRED))
    await agent.preparer.prepare(REF)
    return agent


@pytest.fixture
def walls(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> ClaimUse:
    monkeypatch.setattr(use, "_FRESH", 0)
    return use_of(agent)


def use_of(agent: Agent) -> ClaimUse:
    return ClaimUse(
        node=NODE,
        hardware=agent.ground.hardware,
        records=agent.records,
        walls=agent.walls,
        claims=ContainerClaims(agent.state / METADATA),
        cgroups=agent.ground.node.sys / "fs/cgroup",
        steps=Steps(InternalErrors()),
    )


async def seen(walls: ClaimUse) -> dict[str, tuple[float, float]]:
    """Used and allowed, in GiB, by GPU: those of which both are told."""
    await walls.look()
    used, limit = (
        {sample.labels["gpu_uuid"]: sample.value / GIB for sample in samples_of(walls.families, metric)}
        for metric in (catalogue.CLAIM_MEMORY_USED, catalogue.CLAIM_MEMORY_LIMIT)
    )
    return {gpu: (used[gpu], limit[gpu]) for gpu in limit}


def using(agent: Agent, cgroup: Path, gpu: int, memory: str) -> AbstractContextManager[cuda.CudaProcess]:
    """A CUDA process in a container."""
    node = agent.ground.node
    return cuda.running(node, cuda.Options(gpu=uuid(node, gpu), memory=memory, cgroup=cgroup))


async def start(agent: Agent, index: int, name: str, *, held: bool = True) -> Path:
    """A container of the claim's device, as our hook leaves it."""
    cgroup = agent.ground.node.sys / "fs/cgroup" / name
    cgroup.mkdir(exist_ok=True)
    noted = agent.directories.path(REF.uid, index) / "containers"
    noted.mkdir(exist_ok=True)
    (noted / name).write_text(f"/{name}")
    if held:
        gpu = uuid(agent.ground.node, min(index, 1))
        await agent.ground.hardware.set_memory_limit(gpu, cgroup, MemoryLimit(most=4 * GIB))
    return cgroup


async def test_a_claim_without_containers_uses_nothing(agent: Agent, walls: ClaimUse) -> None:
    first, second = (uuid(agent.ground.node, index) for index in (0, 1))
    assert await seen(walls) == {first: (0, 4), second: (0, 24)}


async def test_containers_come_and_go_and_with_them_the_claim(agent: Agent, walls: ClaimUse) -> None:
    first, second = (uuid(agent.ground.node, index) for index in (0, 1))
    one, both = await start(agent, 0, "one"), await start(agent, 1, "both")
    await start(agent, 2, "both")
    with using(agent, one, 0, "1G"), using(agent, both, 1, "2G"):
        assert await seen(walls) == {first: (1, 4), second: (2, 24)}
    one.rmdir()
    assert await seen(walls) == {first: (0, 4), second: (0, 24)}
    await agent.preparer.unprepare(REF)
    assert await seen(walls) == {}


async def test_no_wall_no_limit(agent: Agent, walls: ClaimUse) -> None:
    """Preferred: a container started without."""
    second = uuid(agent.ground.node, 1)
    await start(agent, 0, "one")
    await start(agent, 0, "unheld", held=False)
    assert await seen(walls) == {second: (0, 24)}


async def test_a_gpu_that_does_not_answer_is_left_out(agent: Agent, walls: ClaimUse) -> None:
    first, second = (uuid(agent.ground.node, index) for index in (0, 1))
    for index in (0, 1):
        await start(agent, index, f"c{index}")
    agent.ground.node.inject(faults.GpuLost(first))
    assert await seen(walls) == {second: (0, 24)}


async def test_a_driver_that_hangs_holds_up_nobody_for_long(
    agent: Agent, walls: ClaimUse, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(agent, 0, "one")
    assert uuid(agent.ground.node) in await seen(walls)
    monkeypatch.setattr(use, "_PATIENCE", 0.2)
    agent.ground.node.inject(faults.CallHangs("nvmlDeviceGetMemoryLimits_v1", 1))
    # What is not known now is not shown as it was.
    assert uuid(agent.ground.node) not in await seen(walls)


async def test_who_asks_often_is_told_what_was_seen_just_now(agent: Agent) -> None:
    walls = use_of(agent)
    first = uuid(agent.ground.node)
    assert (await seen(walls))[first] == (0, 4)
    with using(agent, await start(agent, 0, "one"), 0, "1G"):
        assert (await seen(walls))[first] == (0, 4)
