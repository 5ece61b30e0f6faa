"""A GPU that breaks under a pod: people see it in the pod's status, nobody new comes, and the pod goes on."""

import asyncio
from typing import Any

import pytest

from gpusharing.api import names
from gpusharing.sim import faults
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim_spec, pod, template, time_slicing
from node.user import SHARED, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

HEARTBEAT = "i=0; while true; do i=$((i+1)); echo $i > /tmp/heartbeat; sleep 0.1; done"


def with_heartbeat(name: str) -> dict[str, Any]:
    made = pod(name, template="share")
    made["spec"]["containers"][0]["command"] = ["sh", "-c", HEARTBEAT]
    return made


@pytest.fixture
def user(gpu_cluster: GpuCluster) -> User:
    return User(gpu_cluster)


async def health(user: User, name: str) -> tuple[str, str]:
    """Of its only device, as kubectl shows it."""
    (container,) = (await user.get("pod", name))["status"]["containerStatuses"]
    resources = [one for listed in container.get("allocatedResourcesStatus", ()) for one in listed["resources"]]
    assert len({resource["health"] for resource in resources}) == 1, container
    return resources[0]["health"], resources[0].get("message", "")


async def test_pods_status_shows_the_gpus_health(user: User) -> None:
    await user.apply(time_slicing("halves", clients=2, gpus={"maxPerNode": 1}))
    await user.wait("sharingpolicy/halves", "--for=condition=Ready")
    await user.apply(template("share", claim_spec(SHARED)), with_heartbeat("first"))
    await user.wait("pod/first", "--for=condition=Ready")

    async def shows(expected: str, text: str) -> None:
        async def check() -> None:
            found, message = await health(user, "first")
            assert found == expected
            assert text in message

        await eventually(check)

    await shows("Healthy", "")
    (result,) = (await user.claim_of(await user.get("pod", "first")))["status"]["allocation"]["devices"]["results"]
    node = user.cluster.sim_node
    gpu = node.gpus()[names.slot_of_device(result["device"]) or 0]
    node.inject(faults.Xid(gpu.uuid, 119))
    await shows("Unhealthy", ": its own processor (GSP) did not answer; reset it")

    # There is room for one more, and it is not for anybody.
    await user.apply(pod("second", template="share"))
    await user.running(1, pending=1)
    await asyncio.sleep(2)
    await user.running(1, pending=1)
    before = int(await user.shell("first", "cat /tmp/heartbeat"))
    await asyncio.sleep(1)
    assert int(await user.shell("first", "cat /tmp/heartbeat")) > before
    (container,) = (await user.get("pod", "first"))["status"]["containerStatuses"]
    assert (container["restartCount"], container["ready"]) == (0, True)

    # It falls off the bus and comes back: it was reset.
    node.inject(faults.GpuLost(gpu.uuid))
    await shows("Unhealthy", "the GPU is lost")
    await user.cluster.agent.stop()
    node.clear()
    await user.cluster.agent.start()
    await shows("Healthy", "")
    await user.wait("pod/second", "--for=condition=Ready")
    (container,) = (await user.get("pod", "first"))["status"]["containerStatuses"]
    assert container["restartCount"] == 0
    assert int(await user.shell("first", "cat /tmp/heartbeat")) > before

    await user.delete("pods", "--all")
    await user.delete("sharingpolicy", "halves")
    await user.published("gpu-0", "gpu-1")
    await user.nothing_prepared()
