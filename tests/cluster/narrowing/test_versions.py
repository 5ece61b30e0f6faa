"""With each scheduler that we support: the four ways of one GPU, one after the other, and more GPUs than one slice has
room for their counters."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from cluster.narrowing.bed import EVERYTHING, MPS, PART, SHARE, WHOLE, Bed

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

WAYS = {SHARE: "gpu-0-timeslicing", MPS: "gpu-0-mps", PART: "gpu-0-mig-1g10gb-19-6", WHOLE: "gpu-0"}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["1.36", "1.37"])
async def bed(request: pytest.FixtureRequest, toolchain: object) -> AsyncIterator[Bed]:
    emulated = request.param if request.param == "1.36" else None
    async with Bed(emulated_version=emulated, closing_guard=False) as bed:
        await bed.offer(**EVERYTHING)
        yield bed


async def test_each_way_keeps_out_the_others_until_it_is_left(bed: Bed) -> None:
    async with bed.node() as node:
        await bed.offers_everything(node)
        for wish, device in WAYS.items():
            holder = await bed.start(wish)
            await bed.runs(holder, device, on=node)
            others = [await bed.start(other) for other in WAYS if other is not wish]
            await bed.waits(*others, seconds=1)
            for other in others:
                await bed.ends(other)
            await bed.ends(holder, on=node)
            await bed.offers_everything(node)
        assert not bed.allocations.wrong


async def test_a_node_of_nine_gpus(bed: Bed) -> None:
    async with bed.node(gpus="H100-80GB:9") as node:
        await bed.offers_everything(node)
        counters = [one for one in await node.slices() if "sharedCounters" in one["spec"]]
        assert [len(one["spec"]["sharedCounters"]) for one in counters] == [8, 1]
        holders = [await bed.start(WHOLE) for _ in range(9)]
        for holder in holders:
            await bed.bound[holder.name]
            await bed.prepare(holder, on=node)
        assert {await bed.device(holder) for holder in holders} == {f"gpu-{slot}" for slot in range(9)}
        late = await bed.start(SHARE)
        await bed.waits(late, seconds=1)
        free = await bed.device(holders[0])
        await bed.ends(holders[0], on=node)
        await bed.gets(late, f"{free}-timeslicing")
        await bed.ends(late)
        for holder in holders[1:]:
            await bed.ends(holder, on=node)
