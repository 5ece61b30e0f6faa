"""Evict, on the real kubelet and controller manager: who holds what is not offered any more goes, and nobody else."""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from harness.commands import CommandError
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim_spec, pod, template, time_slicing
from node.user import SHARED, WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

TOLERATED = 8


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path) -> AsyncIterator[User]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:2") as cluster:
        yield User(cluster)


def tolerating(**toleration: Any) -> dict[str, Any]:
    spec = claim_spec(SHARED)
    toleration = {"key": "gpusharing.dev/draining", "operator": "Exists", "effect": "NoExecute"} | toleration
    spec["devices"]["requests"][0]["exactly"]["tolerations"] = [toleration]
    return spec


async def decide(user: User, **changes: Any) -> None:
    """The operator's word on the first GPU, while the operator is away."""
    first, *others = (await user.get("nodesharing", "node-1"))["spec"]["gpus"]
    patch = json.dumps({"spec": {"gpus": [first | changes, *others]}})
    await user.cluster.kubectl("patch", "nodesharing", "node-1", "--type=merge", f"--patch={patch}")


async def approval(user: User, device: str) -> dict[str, list[str]]:
    """That it may be withdrawn, now that it is closing."""
    gpus = (await user.get("nodesharing", "node-1"))["status"]["gpus"]
    (since,) = (one["closingSince"] for gpu in gpus for one in gpu["published"] if one["device"] == device)
    return {"closeApproved": [device], "closeApprovedSince": [since]}


async def names(user: User) -> set[str]:
    return {item["metadata"]["name"] for item in (await user.get("pods", "--selector=app=test"))["items"]}


async def taints(user: User) -> dict[str, list[tuple[str, str]]]:
    slices = (await user.get("resourceslices"))["items"]
    return {
        device["name"]: [
            (taint["key"].removeprefix("gpusharing.dev/"), taint["effect"]) for taint in device.get("taints", ())
        ]
        for item in slices
        for device in item["spec"].get("devices", ())
    }


async def container(user: User, name: str) -> tuple[str, int]:
    (status,) = (await user.get("pod", name))["status"]["containerStatuses"]
    return status["containerID"], status["restartCount"]


async def test_who_is_in_the_way_is_evicted_by_claim_and_toleration(user: User) -> None:
    await user.apply(time_slicing("thirds", clients=3))
    await user.wait("sharingpolicy/thirds", "--for=condition=Ready")
    # It refuses such tolerations; whoever has one is older than it, or goes around it.
    await user.cluster.kubectl("delete", "validatingadmissionpolicybinding", "gpusharing-tolerations")

    async def templates_are_made() -> None:
        try:
            await user.apply(
                template("plain", claim_spec(SHARED)),
                template("for-a-while", tolerating(tolerationSeconds=TOLERATED)),
                template("for-ever", tolerating()),
                template("whole", claim_spec(WHOLE)),
            )
        except CommandError as error:
            raise AssertionError(str(error)) from error

    await eventually(templates_are_made)
    # The scheduler fills the first GPU first.
    for name, kind in (("plain", "plain"), ("while", "for-a-while"), ("ever", "for-ever"), ("other", "plain")):
        await user.apply(pod(name, template=kind))
        await user.wait(f"pod/{name}", "--for=condition=Ready")
    undisturbed = {name: await container(user, name) for name in ("ever", "other")}

    await user.cluster.operator.stop()
    began = time.time()
    await decide(user, offers={"exclusive": {}}, drain={"mode": "Evict"})

    async def plain_is_gone() -> None:
        assert await names(user) == {"while", "ever", "other"}

    await eventually(plain_is_gone, within=TOLERATED - 2)
    found = await taints(user)
    assert found["gpu-0-timeslicing"] == [("draining", "NoExecute")]
    assert found["gpu-1-timeslicing"] == []
    events = (await user.get("events", "--field-selector=involvedObject.name=plain"))["items"]
    assert "DeviceTaintManagerEviction" in {event["reason"] for event in events}, [event["reason"] for event in events]

    async def while_is_gone() -> None:
        assert await names(user) == {"ever", "other"}

    await eventually(while_is_gone, within=TOLERATED + 20)
    # Times in the API have no fractions.
    assert time.time() - began >= TOLERATED - 1

    # Nobody new comes; who tolerates it for ever, and who is on the other GPU, run on in the same containers.
    await user.apply(pod("late", template="plain"), pod("whole", template="whole"))
    await user.wait("pod/late", "--for=condition=Ready")
    assert undisturbed == {name: await container(user, name) for name in undisturbed}
    assert [item["metadata"]["name"] for item in await user.pods("Pending")] == ["whole"]
    assert (await taints(user))["gpu-0-timeslicing"] == [("draining", "NoExecute")]

    # When the last one leaves, the GPU is what the policy says.
    await user.delete("pod", "ever")
    await user.wait("pod/whole", "--for=condition=Ready")
    (result,) = (await user.claim_of(await user.get("pod", "whole")))["status"]["allocation"]["devices"]["results"]
    # It was whole, and withdrawn, a minute ago.
    assert result["device"] == "gpu-0r1"
    await user.delete("pod", "whole")
    await decide(user, allocated=[], **await approval(user, "gpu-0-timeslicing"))
    await user.published("gpu-0", "gpu-1-timeslicing")
    assert all(found == [] for found in (await taints(user)).values())
    assert await container(user, "other") == undisturbed["other"]

    await user.cluster.operator.start()
    await user.delete("pods", "--all")
    await user.delete("sharingpolicy", "thirds")
    await user.published("gpu-0", "gpu-1")
    await user.nothing_prepared()
