"""Few nodes and claims in `make test`; `make hammer` takes 20 nodes and 2,000 claims."""

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack

import pytest

from agent.on_cluster import GpuNode
from cluster.narrowing.bed import EVERYTHING, Bed
from cluster.narrowing.hammer import HISTORIES, IDLE_WAIT, TAKEN_WAIT, Hammer

NODES = int(os.environ.get("GPUSHARING_HAMMER_NODES", "3"))
CLAIMS = int(os.environ.get("GPUSHARING_HAMMER_CLAIMS", "60"))
SEED = int(os.environ.get("GPUSHARING_HAMMER_SEED", "1"))
USERS_PER_NODE = 3
PLACED_WITHIN = float(os.environ.get("GPUSHARING_HAMMER_PLACED_WITHIN", "15"))
"""Tests share the machine with others; `make hammer` holds to 5 s."""

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(120 + 10 * NODES + 3 * CLAIMS),
]


async def test_claims_of_all_modes_come_and_go(toolchain: object) -> None:
    async with Bed(taken_wait=TAKEN_WAIT, idle_wait=IDLE_WAIT, closing_guard=False) as bed, AsyncExitStack() as stack:
        await bed.offer(**EVERYTHING)
        nodes: dict[str, GpuNode] = {}
        for _ in range(NODES):
            node = await stack.enter_async_context(bed.node(gpus="H100-80GB:2"))
            nodes[node.name] = node
        for node in nodes.values():
            await bed.offers_everything(node)
        hammer = Hammer(
            bed=bed,
            nodes=nodes,
            claims=CLAIMS,
            users=USERS_PER_NODE * NODES,
            seed=SEED,
            placed_within=PLACED_WITHIN,
        )
        await hammer.run()
        print(f"seed {SEED}: {told(hammer)}")
        assert not bed.allocations.wrong, "\n".join(bed.allocations.wrong)
        # What was not there was not tried.
        assert all(hammer.seen[what] for what in (*HISTORIES, "Exclusive", "TimeSlicing", "MPS", "MIG", "slices wiped"))
        for node in nodes.values():
            await everything_is_undone(bed, node)
        assert not hammer.slow, "\n".join(f"{name}: {what}" for name, what in list(hammer.slow.items())[:3])


def told(hammer: Hammer) -> Mapping[str, object]:
    return {
        **hammer.seen,
        "longest wait with room": f"{max(hammer.waits, default=0):.1f} s",
        "too long": len(hammer.slow),
    }


async def everything_is_undone(bed: Bed, node: GpuNode) -> None:
    assert node.prepared() == set(node.specs()) == set()
    assert list((node.state / "journal").iterdir()) == []
    assert not any(gpu.mig_mode and gpu.mig_mode.current for gpu in node.sim.gpus())
    assert node.sim.mps_daemons() == []
    await bed.offers_everything(node)
