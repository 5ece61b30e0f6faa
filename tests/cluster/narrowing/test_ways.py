"""The ways in which one GPU could be taken in two (docs: narrowing), each on the real scheduler with the real agent.

In each the scheduler, API server and kubelet do exactly what once led to a double allocation; what is held is checked
at every single write of a claim.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.on_cluster import RESOURCE
from cluster.narrowing.bed import EXCLUSIVE, SHARE, SHARED, WHOLE, Bed, Wish

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

BOTH = EXCLUSIVE | SHARED
TAKEN_WAIT, IDLE_WAIT = 2.0, 3.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def a_bed(toolchain: object) -> AsyncIterator[Bed]:
    async with Bed(taken_wait=TAKEN_WAIT, idle_wait=IDLE_WAIT, closing_guard=False) as bed:
        yield bed


@pytest_asyncio.fixture(loop_scope="module")
async def bed(a_bed: Bed) -> AsyncIterator[Bed]:
    await a_bed.offer(**BOTH)
    yield a_bed
    a_bed.proxy.slices.release()
    a_bed.proxy.claims.release()
    a_bed.allocations.wrong.clear()
    for kind in ("/api/v1/namespaces/default/pods", f"{RESOURCE}/namespaces/default/resourceclaims"):
        await a_bed.admin.call("DELETE", kind, {"gracePeriodSeconds": 0})


async def test_a_a_released_gpu_whose_other_share_is_not_prepared_yet(bed: Bed) -> None:
    async with bed.node(gpus="H100-80GB:2") as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing", "gpu-1")
        # Whoever wants a whole one gets the menu's last.
        first, second = await bed.start(WHOLE), await bed.start(WHOLE)
        await bed.runs(first, "gpu-1", on=node)
        await bed.runs(second, "gpu-0", on=node)
        await bed.ends(first, on=node)
        await bed.shows(node, "gpu-0", "gpu-1", "gpu-1-timeslicing")
        a, b = await bed.start(SHARE), await bed.start(SHARE)
        await bed.gets(b, "gpu-1-timeslicing")
        await bed.runs(a, "gpu-1-timeslicing", on=node)
        await bed.shows(node, "gpu-0", "gpu-1-timeslicing")
        await bed.ends(second, on=node)
        # The menu is on the first GPU again: the second should be whole only when it is released.
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing", "gpu-1-timeslicing")
        await bed.ends(a, on=node)
        await bed.gets(await bed.start(WHOLE), "gpu-0")
        another = await bed.start(WHOLE)
        await bed.waits(another, seconds=TAKEN_WAIT + IDLE_WAIT + 2)
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing", "gpu-1", "gpu-1-timeslicing")
        assert bed.allocations.wrong == []
        # And it is not lost either.
        await bed.ends(b)
        await bed.gets(another, "gpu-1")


async def test_b_the_claim_ends_before_the_scheduler_hears_of_what_it_took(bed: Bed) -> None:
    async with bed.node() as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        a = await bed.start(SHARE)
        await bed.runs(a, "gpu-0-timeslicing", on=node)
        # Later than anything is dropped, but as early as closing is told.
        bed.proxy.slices.seconds = TAKEN_WAIT / 2
        await bed.shows(node, "-gpu-0", "gpu-0-timeslicing")
        await asyncio.sleep(TAKEN_WAIT * 3 / 4)
        bed.proxy.slices.hold()
        await bed.shows(node, "gpu-0-timeslicing")
        await bed.ends(a, on=node)
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        whole, share = await bed.start(WHOLE), await bed.start(SHARE)
        await bed.waits(whole)
        await bed.gets(share, "gpu-0-timeslicing")
        bed.proxy.slices.seconds = 0
        bed.proxy.slices.release()
        await bed.waits(whole)
        assert bed.allocations.wrong == []
        await bed.ends(share)
        await bed.gets(whole, "gpu-0")


async def test_c_a_pod_is_deleted_by_force_while_it_is_prepared(bed: Bed) -> None:
    async with bed.node() as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        a = await bed.start(SHARE)
        await bed.runs(a, "gpu-0-timeslicing", on=node)
        await bed.ends(a)
        whole = await bed.start(WHOLE)
        await bed.gets(whole, "gpu-0")
        assert a.name in await bed.prepare_error(whole, on=node)
        share = await bed.start(SHARE)
        await bed.waits(share, seconds=3 * TAKEN_WAIT + 1)
        assert bed.allocations.wrong == []
        assert "gpu-0" in {name.removeprefix("-") for name in await bed.published(node)}
        # The kubelet hears of it within a minute.
        await node.kubelet.unprepare(a.claim)
        await bed.prepare(whole, on=node)
        await bed.waits(share)
        await bed.ends(whole, on=node)
        await bed.gets(share, "gpu-0-timeslicing")


async def test_d_an_admin_looks_at_a_gpu_that_is_shared(bed: Bed) -> None:
    namespace = {"metadata": {"name": "admins", "labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await bed.admin.call("POST", "/api/v1/namespaces", namespace)
    await bed.control_plane.kubectl("wait", "--for=create", "serviceaccount/default", "--namespace=admins")
    async with bed.node() as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        looks = await bed.start(Wish("gpu.nvidia.com", admin=True), namespace="admins")
        await bed.runs(looks, "gpu-0", on=node)
        share = await bed.start(SHARE)
        await bed.gets(share, "gpu-0-timeslicing")
        whole = await bed.start(WHOLE)
        await bed.waits(whole, seconds=3 * TAKEN_WAIT + 1)
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        assert bed.allocations.wrong == []
        await bed.ends(looks, on=node)
        await bed.ends(share)
        await bed.gets(whole, "gpu-0")


async def test_e_somebody_who_tolerates_everything_takes_what_is_closing(bed: Bed) -> None:
    foreign = 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].?type.orValue("") == "shared"'
    device_class = {"metadata": {"name": "foreign"}, "spec": {"selectors": [{"cel": {"expression": foreign}}]}}
    await bed.admin.call("POST", f"{RESOURCE}/deviceclasses", device_class)
    async with bed.node() as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        await bed.offer(**EXCLUSIVE)
        await bed.shows(node, "gpu-0", "-gpu-0-timeslicing")
        tolerant = await bed.start(Wish("foreign", tolerates=True))
        await bed.gets(tolerant, "gpu-0-timeslicing")
        whole = await bed.start(WHOLE)
        await bed.waits(whole, seconds=2 * IDLE_WAIT)
        await bed.shows(node, "gpu-0", "-gpu-0-timeslicing")
        assert bed.allocations.wrong == []
        await bed.ends(tolerant)
        await bed.gets(whole, "gpu-0")
        await bed.ends(whole)
        await bed.shows(node, "gpu-0")


async def test_f_slices_and_disk_are_lost(bed: Bed) -> None:
    """What is unknown is not free."""
    async with bed.node() as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        a, b = await bed.start(SHARE), await bed.start(SHARE)
        await bed.gets(b, "gpu-0-timeslicing")
        await bed.runs(a, "gpu-0-timeslicing", on=node)
        await bed.shows(node, "gpu-0-timeslicing")
        await node.agent.kill()
        shutil.rmtree(node.state)
        await bed.admin.call("DELETE", f"{RESOURCE}/resourceslices?fieldSelector=spec.nodeName%3D{node.name}")
        whole = await bed.start(WHOLE)
        await node.agent.start()
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        await bed.waits(whole, seconds=2 * TAKEN_WAIT + 2)
        assert bed.allocations.wrong == []
        # Neither has been prepared as far as the agent remembers.
        await bed.ends(a, on=node)
        await bed.waits(whole)
        await bed.ends(b)
        await bed.gets(whole, "gpu-0")


async def test_g_the_scheduler_alone_does_it_and_the_later_claim_is_refused(bed: Bed) -> None:
    """It does not know that what it wrote was stored. No layout prevents this; what stays is the node's refusal."""
    async with bed.node() as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        share, whole = await bed.claim(SHARE), await bed.claim(WHOLE)
        await asyncio.sleep(1)
        stored = bed.proxy.leave_next_allocation_unanswered()
        await bed.pod(share)
        await stored.wait()
        await bed.has_failed(share)
        # The API server writes in whole seconds what was allocated when.
        await asyncio.sleep(1)
        await bed.pod(whole)
        await bed.gets_once_tried(whole, "gpu-0", on=node)
        bed.proxy.claims.release()
        await bed.gets(share, "gpu-0-timeslicing")
        assert len(bed.allocations.ill) == 1
        assert bed.allocations.wrong == []
        await bed.prepare(share, on=node)
        # Whoever asks again and again does not get it either, and the first is not disturbed.
        for _ in range(2):
            assert share.name in await bed.prepare_error(whole, on=node)
            await bed.prepare(share, on=node)
        await bed.is_evicted(whole)
        assert not await bed.is_going(share)
        # The published set does not narrow to what the loser has.
        await bed.shows(node, "gpu-0-timeslicing")
        await bed.ends(whole)
        another = await bed.start(WHOLE)
        await bed.waits(another)
        await bed.ends(share, on=node)
        await bed.gets(another, "gpu-0")
