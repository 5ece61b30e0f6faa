"""GPUs for tenants, with the real scheduler, operator and agent: who finds them, and how they become so or cease to be.

What is held is checked at every single write of a claim.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.on_cluster import RESOURCE, GpuNode
from cluster.narrowing.bed import EVERYTHING, EXCLUSIVE, HALF, MPS, PART, SHARE, SHARED, WHOLE, Bed, Wish
from harness.eventually import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

TENANTS = {"team": "search"}
TAKEN_WAIT, IDLE_WAIT = 1.0, 3.0
AS_NVIDIAS = Wish("as-nvidias", tolerates=True)
TENANTS_WHOLE, TENANTS_SHARE = Wish("shared-exclusive"), Wish("shared-timeslicing")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def a_bed(toolchain: object) -> AsyncIterator[Bed]:
    async with Bed(taken_wait=TAKEN_WAIT, idle_wait=IDLE_WAIT, closing_guard=False) as bed:
        await bed.device_class("as-nvidias", 'device.attributes["gpu.nvidia.com"].type == "gpu"')
        # Everybody here is one of the tenants; the wall would let nobody else in.
        await bed.admin.merge("/api/v1/namespaces/default", {"metadata": {"labels": TENANTS}})
        yield bed


@pytest_asyncio.fixture(loop_scope="module")
async def bed(a_bed: Bed) -> AsyncIterator[Bed]:
    yield a_bed
    a_bed.allocations.wrong.clear()
    for kind in ("/api/v1/namespaces/default/pods", f"{RESOURCE}/namespaces/default/resourceclaims"):
        await a_bed.admin.call("DELETE", kind, {"gracePeriodSeconds": 0})


async def is_in(node: GpuNode, pool: str) -> None:
    """Waits until the GPU can be had in this pool; that it is in no other is seen on the way."""

    async def check() -> None:
        devices = await node.devices_by_pool()
        assert {name.rpartition("/")[0] for name in devices} == {pool}
        assert any("taints" not in device for device in devices.values())

    await eventually(check)


async def test_only_the_policys_own_classes_find_them(bed: Bed) -> None:
    await bed.offer(**EVERYTHING)
    await bed.restrict(to=TENANTS)
    async with bed.node() as node:
        await is_in(node, f"{node.name}/shared")
        others = [await bed.start(wish) for wish in (WHOLE, SHARE, MPS, PART, HALF, AS_NVIDIAS)]
        await bed.waits(*others)
        tenants = await bed.start(TENANTS_SHARE)
        # The operator's yes comes while the agent waits for it.
        await bed.runs(tenants, "gpu-0-timeslicing", on=node)
        claim = await bed.admin.call("GET", tenants.claim.path)
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert result["pool"] == f"{node.name}/shared"

        async def everybody_knows() -> None:
            sharing = await node.sharing()
            assert [entry["verdict"] for entry in sharing["spec"]["claims"]] == ["Allowed"]
            told = await node.status_devices(tenants.claim)
            assert [(entry["pool"], entry["device"]) for entry in told] == [
                (f"{node.name}/shared", "gpu-0-timeslicing")
            ]
            (gpu,) = sharing["spec"]["gpus"]
            assert [device["device"] for device in gpu["allocated"]] == ["gpu-0-timeslicing"]

        await eventually(everybody_knows)
        await bed.waits(*others, seconds=1)
        assert bed.allocations.wrong == []


async def test_a_gpu_goes_to_tenants_and_comes_back_while_everybody_wants_it(bed: Bed) -> None:
    await bed.offer(**EXCLUSIVE, **SHARED)
    await bed.restrict(to=None)
    async with bed.node() as node:
        await is_in(node, node.name)
        wishes = (WHOLE, SHARE, TENANTS_WHOLE, TENANTS_SHARE)
        had: Counter[Wish] = Counter()
        users = [asyncio.create_task(_use(bed, node, wish, had)) for wish in wishes]
        # Each time somebody else may be the first.
        async with asyncio.timeout(240):
            while set(had) != set(wishes):
                for tenants in (TENANTS, None):
                    await bed.restrict(to=tenants)
                    await is_in(node, f"{node.name}/shared" if tenants else node.name)
        for user in users:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)
        for user in users:
            assert user.cancelled(), user.exception()
        assert bed.allocations.wrong == []


async def _use(bed: Bed, node: GpuNode, wish: Wish, had: Counter[Wish]) -> None:
    """One pod after the other; each runs, or gives up soon."""
    while True:
        workload = await bed.start(wish)
        try:
            async with asyncio.timeout(2):
                await bed.bound[workload.name]
        except TimeoutError:
            await bed.ends(workload)
            continue
        had[wish] += 1
        runs = not await bed.prepare_error(workload, on=node)
        await bed.ends(workload, on=node if runs else None)
