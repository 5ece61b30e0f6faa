"""The uuid of a MIG instance that was made for a claim: it comes and goes with writes that there are anyway."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.on_cluster import Claim, GpuNode
from agent.publishing.test_publication import has_looked_around
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = pytest.mark.cluster

FIRST, SECOND = "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1"
INSTANCES = [f"gpu-0-mig-1g10gb-19-{start}" for start in range(7)]
ONLY_SMALL: dict[str, Any] = {"mig": {"profiles": ["1g.10gb"]}}
WHOLE_OR_SMALL: dict[str, Any] = {"exclusive": {}, **ONLY_SMALL}
# Longer than this test may take between two steps.
NEVER = "600"


@pytest_asyncio.fixture
async def node(installed: ControlPlane) -> AsyncIterator[GpuNode]:
    async with GpuNode(installed, gpus="H100-80GB:1", start=False) as node:
        yield node


async def start(node: GpuNode, taken_wait: str, offers: dict[str, Any]) -> None:
    node.agent = node.process(taken_wait=taken_wait)
    await node.agent.start()
    await node.decide(offers)
    await node.offers(*INSTANCES, *(["gpu-0"] if "exclusive" in offers else []))


async def writes(node: GpuNode) -> int:
    """The agent logs them when the API has them already."""
    await has_looked_around(node)
    return sum(entry["writes"] for entry in node.log("devices published"))


async def told(node: GpuNode) -> dict[str, str]:
    """The uuids of MIG devices."""
    uuids = {name: device["attributes"].get("uuid") for name, device in (await node.devices()).items()}
    return {name: uuid["string"] for name, uuid in uuids.items() if uuid and "-mig-" in name}


def cut(node: GpuNode) -> list[str]:
    return sorted(one.uuid for made in node.sim.gpus()[0].gpu_instances for one in made.compute_instances)


async def prepare(node: GpuNode, *devices: str) -> list[Claim]:
    claims = [await node.claim(node.whole(device=device)) for device in devices]
    answers = await node.kubelet.prepare(*claims)
    assert not any(answer.error for answer in answers.values())
    return claims


async def is_told(node: GpuNode, *devices: str) -> None:
    async def check() -> None:
        found = await told(node)
        assert sorted(found) == sorted(devices)
        assert sorted(found.values()) == cut(node)

    await eventually(check)


async def test_it_costs_no_write_where_narrowing_writes(node: GpuNode) -> None:
    await start(node, "3", WHOLE_OR_SMALL)
    before = await writes(node)
    claims = await prepare(node, FIRST)
    await node.offers(*INSTANCES, approved=False)
    await is_told(node, FIRST)
    # The whole GPU closes, and goes: that is all.
    assert await writes(node) == before + 2
    await node.kubelet.unprepare(*claims)
    await node.offers("gpu-0", *INSTANCES)
    await is_told(node)
    assert await writes(node) == before + 3


async def test_where_nothing_is_written_it_comes_when_the_claim_stays(node: GpuNode) -> None:
    await start(node, "3", ONLY_SMALL)
    before = await writes(node)
    claims = await prepare(node, FIRST, SECOND)
    await is_told(node, FIRST, SECOND)
    assert await writes(node) == before + 1
    # Another agent knows what is published.
    await node.agent.kill()
    await node.agent.start()
    assert await writes(node) == before + 1
    await node.kubelet.unprepare(claims[0])
    await is_told(node, SECOND)
    assert await writes(node) == before + 2


async def test_it_goes_with_what_is_written_for_another_reason(node: GpuNode) -> None:
    await start(node, NEVER, ONLY_SMALL)
    before = await writes(node)
    await prepare(node, FIRST)
    await node.decide(ONLY_SMALL, policy="other")
    await is_told(node, FIRST)
    assert await writes(node) == before + 1


@pytest.mark.parametrize("offers", [WHOLE_OR_SMALL, ONLY_SMALL])
async def test_pods_that_end_soon_wake_nobody(node: GpuNode, offers: dict[str, Any]) -> None:
    await start(node, NEVER, offers)
    before = await writes(node)
    for _ in range(3):
        claims = await prepare(node, FIRST)
        assert len(cut(node)) == 1
        await has_looked_around(node)
        await node.kubelet.unprepare(*claims)
        await has_looked_around(node)
    assert (await told(node), await writes(node)) == ({}, before)
