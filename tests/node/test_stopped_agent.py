"""No pod is sent to a node whose agent does not run: neither after an orderly stop, nor after its end by force."""

import asyncio

import pytest

from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim_spec, pod, template
from node.user import WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

WITHDRAWN_WITHIN = 45.0
"""The kubelet waits for half a minute for a driver to come back."""


@pytest.fixture
def user(gpu_cluster: GpuCluster) -> User:
    return User(gpu_cluster)


async def taints(user: User) -> list[str]:
    slices = (await user.get("resourceslices"))["items"]
    devices = [device for each in slices for device in each["spec"].get("devices", [])]
    return sorted({taint["key"] for device in devices for taint in device.get("taints", [])})


async def is_not_scheduled(user: User, name: str) -> None:
    async def check() -> None:
        conditions = (await user.get("pod", name))["status"].get("conditions", [])
        scheduled = [(one["status"], one["reason"]) for one in conditions if one["type"] == "PodScheduled"]
        assert scheduled == [("False", "Unschedulable")]

    await eventually(check)
    # It stays so.
    await asyncio.sleep(2)
    await check()


async def test_orderly_stop(user: User) -> None:
    agent = user.cluster.agent
    await user.apply(template("whole", claim_spec(WHOLE)), pod("before", template="whole"))
    await user.wait("pod/before", "--for=condition=Ready")
    await agent.stop()
    assert await taints(user) == ["gpusharing.dev/agent-stopped"]
    await user.apply(pod("meanwhile", template="whole"))
    await is_not_scheduled(user, "meanwhile")
    # Running pods are not disturbed.
    assert (await user.get("pod", "before"))["status"]["phase"] == "Running"
    await agent.start()
    await user.wait("pod/meanwhile", "--for=condition=Ready")
    assert await taints(user) == []
    await user.delete("pods", "--all")
    await user.nothing_prepared()


async def test_end_by_force(user: User) -> None:
    """The kubelet notices, and withdraws the devices."""
    agent = user.cluster.agent
    await user.published("gpu-0", "gpu-1")
    await agent.kill()

    async def are_withdrawn() -> None:
        assert await user.devices() == []

    await eventually(are_withdrawn, within=WITHDRAWN_WITHIN)
    await user.apply(pod("later", template="whole"))
    await is_not_scheduled(user, "later")
    await agent.start()
    await user.wait("pod/later", "--for=condition=Ready")
    await user.delete("pods", "--all")
    await user.nothing_prepared()
