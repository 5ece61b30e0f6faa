"""Another owner of the node's GPUs: it is named, nothing is published or taken from it, and its end is enough."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from harness.eventually import eventually
from harness.installed_cluster import SIMULATED, InstalledCluster
from harness.workloads import claim_spec, pod, template, time_slicing
from install.running import what_runs
from node.user import SHARED, AnyUser

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

OTHERS: Final = "node-1-gpu.nvidia.com-x7k2p"
HAS_A_SLICE: Final = f"another DRA driver of the name gpu.nvidia.com has the ResourceSlice {OTHERS}"
HAS_A_PLUGIN: Final = "a device plugin offers 2 nvidia.com/gpu"
REMEDY: Final = "remove it from this node, or start the agent with --beside-others"
# The agent looks at the Node every half a minute, and everything here is slow where the machine is busy.
LOOKED_WITHIN: Final = 120.0


def others_slice() -> dict[str, Any]:
    """As NVIDIA's driver names and fills it."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": OTHERS},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}],
        },
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(cluster: InstalledCluster) -> AsyncIterator[AnyUser]:
    yield AnyUser(cluster)


async def device_plugin_offers(user: AnyUser, amount: str | None) -> None:
    """What the kubelet writes for one."""
    offered = {"nvidia.com/gpu": amount}
    patch = json.dumps({"status": {"capacity": offered, "allocatable": offered}})
    await user.cluster.kubectl("patch", "node", "node-1", "--subresource=status", "--type=merge", f"--patch={patch}")


async def ready(user: AnyUser) -> dict[str, Any]:
    conditions = (await user.get("nodesharing", "node-1")).get("status", {}).get("conditions", [])
    found: dict[str, Any] = next((one for one in conditions if one["type"] == "Ready"), {})
    return found


def message(*others: str) -> str:
    return f"nothing is published, because others serve the GPUs of this node: {'; '.join(others)}: {REMEDY}"


async def are_named(user: AnyUser, *others: str) -> None:
    async def named() -> None:
        condition = await ready(user)
        assert (condition.get("status"), condition.get("reason")) == ("False", "OtherDriverFound")
        assert message(*others) in condition["message"]

    await eventually(named, within=LOOKED_WITHIN)


async def event_names(user: AnyUser, *others: str) -> None:
    """One when it begins."""

    async def recorded() -> None:
        events = (await user.get("events", "--field-selector=reason=OtherDriverFound"))["items"]
        assert any(message(*others) in event["message"] for event in events)
        assert {event["involvedObject"]["name"] for event in events} == {"node-1"}

    await eventually(recorded)


async def works(cluster: InstalledCluster, user: AnyUser) -> None:
    async def is_ready() -> None:
        assert (await ready(user)).get("status") == "True"

    await eventually(is_ready, within=LOOKED_WITHIN)
    await cluster.rolled_out()


async def slices(user: AnyUser) -> dict[str, str]:
    """Their versions."""
    listed = (await user.get("resourceslices"))["items"]
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in listed}


async def slices_at_rest(user: AnyUser) -> dict[str, str]:
    """Once what is in use has been withdrawn elsewhere."""
    found = await slices(user)

    async def are_the_same() -> None:
        nonlocal found
        before = found
        await asyncio.sleep(2)
        found = await slices(user)
        assert found == before

    await eventually(are_the_same)
    return found


async def test_the_others_were_there_first(cluster: InstalledCluster, user: AnyUser) -> None:
    await user.apply(others_slice())
    await device_plugin_offers(user, "2")
    theirs = await slices(user)
    assert theirs.keys() == {OTHERS}
    await cluster.kubectl("apply", "--kustomize", SIMULATED)
    await user.wait("crd/nodesharings.gpusharing.dev", "--for=condition=Established")
    await user.wait("nodesharing/node-1", "--for=create")
    await are_named(user, HAS_A_SLICE, HAS_A_PLUGIN)
    await event_names(user, HAS_A_SLICE, HAS_A_PLUGIN)
    await user.apply(time_slicing("quarters"), template("share", claim_spec(SHARED)), pod("waits", template="share"))

    await user.delete("resourceslice", OTHERS)
    await are_named(user, HAS_A_PLUGIN)
    assert await slices(user) == {}
    await user.running(0, pending=1)
    node = (await user.get("node", "node-1"))["status"]
    assert (node["capacity"]["nvidia.com/gpu"], node["allocatable"]["nvidia.com/gpu"]) == ("2", "2")

    await device_plugin_offers(user, None)
    await works(cluster, user)
    await user.wait("pod/waits", "--for=condition=Ready")


async def test_another_comes_while_a_pod_runs(cluster: InstalledCluster, user: AnyUser) -> None:
    """What is published stays: it is in use."""
    ours, running = await slices_at_rest(user), await what_runs(user)
    await user.apply(others_slice())
    await are_named(user, HAS_A_SLICE)
    await event_names(user, HAS_A_SLICE)
    now = await slices(user)
    assert {name: version for name, version in now.items() if name != OTHERS} == ours
    assert await what_runs(user) == running

    await user.delete("resourceslice", OTHERS)
    await works(cluster, user)
    await user.apply(pod("comes", template="share"))
    await user.wait("pod/comes", "--for=condition=Ready")
    assert running.containers < (await what_runs(user)).containers
