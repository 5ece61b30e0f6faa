"""What takes long on one GPU, or has not begun, holds up nobody else: on a real API server, by real calls."""

import asyncio
import time

import pytest

from agent.on_cluster import EXCLUSIVE, Claim, GpuNode
from gpusharing.sim import faults
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = pytest.mark.cluster

MIG = {"mig": {"profiles": ["1g.10gb"]}}
STEP = "nvmlDeviceCreateGpuInstanceWithPlacement"


def instance(node: GpuNode, start: int = 0) -> dict[str, object]:
    return node.whole(0, device=f"gpu-0-mig-1g10gb-19-{start}")


def instances(node: GpuNode) -> list[int]:
    return sorted(one.start for one in node.sim.gpus()[0].gpu_instances)


async def is_busy(node: GpuNode) -> None:
    assert (node.state / "claims").exists()
    assert node.prepared()


async def slow_node(node: GpuNode, seconds: float) -> Claim:
    """GPU 0 is cut for this claim, and takes so long for it."""
    await node.decide(MIG, EXCLUSIVE)
    await node.offers(*(f"gpu-0-mig-1g10gb-19-{start}" for start in range(7)), "gpu-1")
    node.sim.inject(faults.CallHangs(STEP, seconds))
    return await node.claim(instance(node))


async def test_gpu_that_is_slow_holds_up_no_other(gpu_node: GpuNode) -> None:
    node = gpu_node
    slow, quick = await slow_node(node, 4), await node.claim(node.whole(1))
    preparing = asyncio.create_task(node.kubelet.prepare(slow))
    await eventually(lambda: is_busy(node))
    began = time.monotonic()
    assert not (await node.kubelet.prepare(quick))[quick.uid].error
    # Rounds go on as well, and so do reports.

    async def reported() -> None:
        assert quick.uid in {claim["uid"] for claim in (await node.sharing())["status"]["claims"]}

    await eventually(reported)
    assert await node.kubelet.unprepare(quick) == {quick.uid: ""}
    assert not preparing.done()
    assert time.monotonic() - began < 3.5
    assert not (await preparing)[slow.uid].error
    assert instances(node) == [0]


async def test_kubelet_that_cannot_wait_is_told_why_and_finds_the_work_done(gpu_node: GpuNode) -> None:
    node = gpu_node
    claim = await slow_node(node, 4)
    error = (await node.kubelet.prepare(claim, within=2))[claim.uid].error
    assert "not ready within the 2 s that the kubelet waits, still waiting for its GPUs" in error
    assert f"claim default/{claim.name} is being prepared" in error
    # The next attempt does not begin again.
    began = time.monotonic()
    assert not (await node.kubelet.prepare(claim))[claim.uid].error
    assert time.monotonic() - began < 3.5
    assert instances(node) == [0]


async def test_pod_that_goes_before_its_gpu_is_ready_leaves_nothing(gpu_node: GpuNode) -> None:
    node = gpu_node
    before = node.sim.gpus()[0].mig_mode
    claim = await slow_node(node, 2)
    assert (await node.kubelet.prepare(claim, within=1))[claim.uid].error
    assert await node.kubelet.unprepare(claim) == {claim.uid: ""}

    async def clean() -> None:
        assert instances(node) == []
        assert node.prepared() == set(node.specs()) == set()
        assert list((node.state / "journal").iterdir()) == []
        assert node.sim.gpus()[0].mig_mode == before

    await eventually(clean)


@pytest.mark.parametrize(
    "fault",
    [faults.CallFails("nvmlInitWithFlags", 9), faults.CallHangs("nvmlDeviceGetCount", 600)],
    ids=["cannot be opened", "hangs"],
)
async def test_agent_whose_driver_does_not_come_serves_all_the_same(
    installed: ControlPlane, fault: faults.Fault
) -> None:
    async with GpuNode(installed) as node:
        await node.decide(EXCLUSIVE, EXCLUSIVE)
        await node.offers("gpu-0", "gpu-1")
        leaving, coming = await node.claim(node.whole(0)), await node.claim(node.whole(1))
        assert not (await node.kubelet.prepare(leaving))[leaving.uid].error
        slices = await node.slices()
        await node.agent.kill()
        node.sim.inject(fault)
        await node.agent.start()
        error = (await node.kubelet.prepare(coming, within=3))[coming.uid].error
        assert "finding out which GPUs this node has" in error or "driver" in error.lower(), error
        assert await node.kubelet.unprepare(leaving, within=10) == {leaving.uid: ""}
        assert node.prepared() == set(node.specs()) == set()
        # Nothing that was published is taken back for that.
        assert await node.slices() == slices
        if isinstance(fault, faults.CallFails):

            async def told() -> None:
                conditions = (await node.sharing())["status"]["conditions"]
                (ready,) = (one for one in conditions if one["type"] == "Ready")
                assert (ready["status"], ready["reason"]) == ("False", "DriverDown")

            await eventually(told)
        node.sim.clear()

        async def prepared() -> None:
            assert not (await node.kubelet.prepare(coming))[coming.uid].error

        await eventually(prepared)
        await node.offers("gpu-0", "gpu-1")
