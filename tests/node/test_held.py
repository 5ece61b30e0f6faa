"""A GPU that a claim has although the API does not know the claim as allocated: the scheduler learns it."""

import json
from typing import Any

import pytest

from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim_spec, pod, template
from node.user import WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture
def user(gpu_cluster: GpuCluster) -> User:
    return User(gpu_cluster)


async def allocated(user: User, name: str) -> str:
    (result,) = (await user.claim_of(await user.get("pod", name)))["status"]["allocation"]["devices"]["results"]
    return str(result["device"])


async def taints(user: User) -> dict[str, list[str]]:
    slices = (await user.get("resourceslices"))["items"]
    devices = [device for each in slices for device in each["spec"].get("devices", [])]
    return {device["name"]: [taint["key"] for taint in device.get("taints", [])] for device in devices}


async def held(user: User) -> list[str]:
    """The messages of the condition, of all GPUs."""
    gpus: list[Any] = (await user.get("nodesharing", "node-1"))["status"]["gpus"]
    return [one["message"] for gpu in gpus for one in gpu["conditions"] if one["type"] == "Held"]


async def test_gpu_of_a_claim_that_lost_its_allocation(user: User) -> None:
    await user.apply(template("whole", claim_spec(WHOLE)), pod("holder", template="whole"))
    await user.wait("pod/holder", "--for=condition=Ready")
    # With the other GPU in use, the scheduler cannot take that one before it knows that the first is free.
    await user.apply(pod("neighbour", template="whole"))
    await user.wait("pod/neighbour", "--for=condition=Ready")
    device = await allocated(user, "holder")
    other = "gpu-1" if device == "gpu-0" else "gpu-0"
    claim = (await user.claim_of(await user.get("pod", "holder")))["metadata"]["name"]
    status = json.dumps({"status": {"allocation": None, "reservedFor": None, "devices": None}})
    await user.cluster.kubectl(
        "patch", "resourceclaim", claim, "--subresource=status", "--type=merge", f"--patch={status}"
    )

    # The scheduler takes the GPU for free, and the agent refuses.
    await user.apply(pod("refused", template="whole"))

    async def is_known() -> None:
        assert await allocated(user, "refused") == device
        assert await taints(user) == {device: ["gpusharing.dev/held"], other: []}
        (message,) = await held(user)
        assert f"claim default/{claim} has device {device}, but is not allocated any more" in message
        assert "delete the pods that use it (holder)" in message

    await eventually(is_known)

    async def says_why() -> None:
        events = (await user.get("events", "--field-selector=involvedObject.name=refused"))["items"]
        assert any(
            "which is not allocated any more: delete the pods that use it (holder)" in event["message"]
            for event in events
        )

    await eventually(says_why)
    # As the message says. The next one gets the other GPU, also after the agent has restarted.
    await user.delete("pods", "refused", "neighbour")
    await user.cluster.agent.restart()

    async def is_tainted() -> None:
        assert await taints(user) == {device: ["gpusharing.dev/held"], other: []}

    await eventually(is_tainted)
    await user.apply(pod("next", template="whole"))
    await user.wait("pod/next", "--for=condition=Ready")
    assert await allocated(user, "next") == other

    # When the holder has gone, it is free again.
    await user.delete("pod", "holder")

    async def is_free() -> None:
        assert await taints(user) == {device: [], other: []}
        assert await held(user) == []

    await eventually(is_free)
    await user.apply(pod("last", template="whole"))
    await user.wait("pod/last", "--for=condition=Ready")
    assert await allocated(user, "last") == device
    await user.delete("pods", "--all")
    await user.nothing_prepared()
