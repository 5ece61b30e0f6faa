"""Memory used and allowed, for claims around whose containers walls stand."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import pytest_asyncio

from agent.metrics.pages import samples
from agent.walls.preparing import REF, Agent, Claims, Ground, ground, offers, share
from controller.api_server import serving
from gpusharing import sim
from gpusharing.agent.metrics import memory
from gpusharing.agent.metrics.memory import WallMemory
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
def walls(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> WallMemory:
    monkeypatch.setattr(memory, "_FRESH", 0)
    return memory_of(agent)


def memory_of(agent: Agent) -> WallMemory:
    return WallMemory(agent.ground.hardware, agent.records, agent.walls, agent.ground.node.sys / "fs/cgroup")


async def seen(walls: WallMemory) -> dict[str, tuple[float, float]]:
    """Used and allowed, in GiB, by GPU."""
    await walls.look()
    found = samples(walls.families)
    gpus = {name.partition('gpu="')[2].rstrip('"}') for name in found}
    labels = f'namespace="{REF.namespace}",claim="{REF.name}"'
    assert len(found) == 2 * len(gpus)
    return {
        gpu: (
            found[f'gpusharing_agent_claim_memory_used_bytes{{{labels},gpu="{gpu}"}}'] / GIB,
            found[f'gpusharing_agent_claim_memory_limit_bytes{{{labels},gpu="{gpu}"}}'] / GIB,
        )
        for gpu in gpus
    }


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


async def test_a_claim_without_containers_uses_nothing(agent: Agent, walls: WallMemory) -> None:
    first, second = (uuid(agent.ground.node, index) for index in (0, 1))
    assert await seen(walls) == {first: (0, 4), second: (0, 24)}


async def test_containers_come_and_go_and_with_them_the_claim(agent: Agent, walls: WallMemory) -> None:
    first, second = (uuid(agent.ground.node, index) for index in (0, 1))
    one, both = await start(agent, 0, "one"), await start(agent, 1, "both")
    await start(agent, 2, "both")
    with using(agent, one, 0, "1G"), using(agent, both, 1, "2G"):
        assert await seen(walls) == {first: (1, 4), second: (2, 24)}
    one.rmdir()
    assert await seen(walls) == {first: (0, 4), second: (0, 24)}
    await agent.preparer.unprepare(REF)
    assert await seen(walls) == {}


async def test_no_wall_no_figures(agent: Agent, walls: WallMemory) -> None:
    """Preferred: a container started without. Nobody counts what it uses."""
    second = uuid(agent.ground.node, 1)
    await start(agent, 0, "one")
    await start(agent, 0, "unheld", held=False)
    assert await seen(walls) == {second: (0, 24)}


async def test_a_gpu_that_does_not_answer_is_left_out(agent: Agent, walls: WallMemory) -> None:
    first, second = (uuid(agent.ground.node, index) for index in (0, 1))
    for index in (0, 1):
        await start(agent, index, f"c{index}")
    agent.ground.node.inject(faults.GpuLost(first))
    assert await seen(walls) == {second: (0, 24)}


async def test_a_driver_that_hangs_holds_up_nobody_for_long(
    agent: Agent, walls: WallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(agent, 0, "one")
    assert uuid(agent.ground.node) in await seen(walls)
    monkeypatch.setattr(memory, "_PATIENCE", 0.2)
    agent.ground.node.inject(faults.CallHangs("nvmlDeviceGetMemoryLimits_v1", 1))
    # What is not known now is not shown as it was.
    assert uuid(agent.ground.node) not in await seen(walls)


async def test_who_asks_often_is_told_what_was_seen_just_now(agent: Agent) -> None:
    walls = memory_of(agent)
    first = uuid(agent.ground.node)
    assert (await seen(walls))[first] == (0, 4)
    with using(agent, await start(agent, 0, "one"), 0, "1G"):
        assert (await seen(walls))[first] == (0, 4)
