"""Nothing that takes long runs on the agent's event loop: calls, probes and other claims wait for it."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from agent.on_cluster import EXCLUSIVE, Claim, GpuNode, opaque
from building import interval_config
from gpusharing.sim import faults
from harness import watched
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = pytest.mark.cluster

CLIENTS: Final = 16
SHARES: Final[dict[str, Any]] = {"timeSlicing": {"maxClients": CLIENTS, "interval": "Medium"}}
MPS: Final[dict[str, Any]] = {"mps": {"maxClients": 2, "memory": {"default": "8Gi"}, "threads": {"default": 25}}}
MIG: Final[dict[str, Any]] = {"mig": {"profiles": ["1g.10gb"]}}
OF_MPS: Final = {"shares": "1", "memory": "8Gi", "threads": "25"}


@pytest_asyncio.fixture
async def node(installed: ControlPlane) -> AsyncIterator[GpuNode]:
    """Its disk is slow, and its agent logs what blocks the event loop."""
    async with GpuNode(installed, gpus="H100-80GB:8", start=False) as node:
        before = node.agent.argv.index("gpusharing")
        node.agent.argv[before] = watched.__name__
        node.agent.env["PYTHONPATH"] = str(Path(watched.__file__).parents[1])
        await node.agent.start()
        yield node


def blocked(node: GpuNode) -> list[dict[str, Any]]:
    """While it serves: nobody waits for a loop that has not begun."""
    serving = node.log("serving the kubelet")[0]["timestamp"]
    return [entry for entry in node.log(watched.EVENT) if entry["timestamp"] > serving]


async def prepared(node: GpuNode, *claims: Claim) -> None:
    answers = await node.kubelet.prepare(*claims)
    assert [answers[claim.uid].error for claim in claims] == [""] * len(claims)


async def test_nothing_blocks_it(node: GpuNode) -> None:
    await node.decide(EXCLUSIVE, EXCLUSIVE, SHARES, SHARES, MPS, MIG, EXCLUSIVE, EXCLUSIVE)
    shares = [await node.claim(node.shared(slot)) for slot in (2, 3) for _ in range(CLIENTS)]
    claims = [
        await node.claim(node.whole(0)),
        await node.claim(node.whole(1), config=[opaque(interval_config("Long"))]),
        await node.claim(node.shared(4, device="gpu-4-mps", consumedCapacity=OF_MPS)),
        await node.claim(node.whole(5, device="gpu-5-mig-1g10gb-19-0")),
    ]
    for claim in claims:
        await prepared(node, claim)
    await prepared(node, *shares)

    # A broken GPU, another policy, files that others remove.
    node.sim.inject(faults.Xid(node.sim.gpus()[7].uuid, 79))
    await node.decide(EXCLUSIVE, EXCLUSIVE, SHARES | EXCLUSIVE, SHARES, MPS, MIG, SHARES, EXCLUSIVE, policy="other")
    shutil.rmtree(node.cdi)

    async def is_told() -> None:
        assert "taints" in (await node.devices())["gpu-7"]
        assert set(node.specs()) == {claim.uid for claim in (*claims, *shares)}
        reported = {claim["uid"] for claim in (await node.sharing())["status"]["claims"]}
        assert reported == {claim.uid for claim in (*claims, *shares)}

    await eventually(is_told)
    for claim in (*claims, *shares):
        assert await node.kubelet.unprepare(claim) == {claim.uid: ""}
    assert not blocked(node), "\n".join(map(str, blocked(node)))


async def test_what_blocks_it_is_noticed(node: GpuNode) -> None:
    """Before it serves, the agent does what would be noticed later."""
    assert node.log(watched.EVENT)
