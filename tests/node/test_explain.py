"""`gpusharing explain` of pods that run, of their GPUs and their policy, and of pods that wait for a GPU in use."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim_spec, pod, policy, template
from node.test_modes import of_mps, of_profile
from node.user import SHARED, WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

ALL_MODES = policy(
    "all-modes",
    offers={
        "exclusive": {},
        "timeSlicing": {"maxClients": 4, "interval": "Short"},
        "mps": {"maxClients": 8, "memory": {"default": "8Gi", "min": "1Gi", "max": "32Gi"}, "threads": {"default": 25}},
        "mig": {"profiles": ["1g.10gb", "3g.40gb"]},
    },
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path) -> AsyncIterator[User]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:1") as cluster:
        user = User(cluster)
        await user.published("gpu-0")
        await user.apply(ALL_MODES)
        await user.wait("sharingpolicy/all-modes", "--for=condition=Ready")
        await user.apply(
            template("share", claim_spec(SHARED)),
            template("whole", claim_spec(WHOLE)),
            template("mps", of_mps("4Gi", 10)),
            template("small", of_profile("1g.10gb")),
            template("large", of_profile("3g.40gb")),
        )
        yield user


async def explain(user: User, *arguments: str, kubeconfig: Path | None = None) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "gpusharing", "explain", *arguments, "-o", "json"]
    command += ["--kubeconfig", str(kubeconfig or user.cluster.kubeconfig)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=dict(os.environ)
    )
    out, err = await process.communicate()
    assert process.returncode in {0, 3, 4}, err.decode()
    return process.returncode, json.loads(out)


def codes(found: dict[str, Any]) -> list[str]:
    return [one["code"] for one in found["findings"]]


async def gone(user: User, *pods: str) -> None:
    await user.delete("pods", *pods, "--now")
    await user.running(0)
    await user.nothing_prepared()


async def waiting_with(user: User, name: str, *expected: str) -> dict[str, Any]:
    """When the explanation has come to these codes first."""
    last: dict[str, Any] = {}

    async def check() -> None:
        status, found = await explain(user, "pod", name)
        assert status == 3, found
        assert codes(found)[: len(expected)] == list(expected), found
        assert "cannot allocate all claims" in found.get("scheduler", ""), found
        last.update(found)

    await eventually(check)
    return last


async def test_neighbours_and_settings(user: User) -> None:
    await user.apply(pod("first", template="share"), pod("second", template="share"))
    await user.running(2)
    status, found = await explain(user, "pod", "first")
    assert (status, codes(found)) == (0, ["GSH0304"])
    assert found["message"] == "Pod default/first runs on node node-1 with 1 device."
    (device,) = found["devices"]
    assert (device["node"], device["device"], device["mode"]) == ("node-1", "gpu-0-timeslicing", "TimeSlicing")
    assert device["policy"] == "all-modes"
    assert device["limits"] == "shares 1"
    assert device["neighbours"].startswith("default/second-")
    assert {
        "device": "gpu-0-timeslicing",
        "setting": "interval",
        "value": "Short",
        "from": "policy/all-modes",
    } in found["settings"]

    status, found = await explain(user, "gpu", "node-1/gpu-0")
    assert status == 0
    assert "is in use in mode TimeSlicing" in found["message"]
    status, found = await explain(user, "node", "node-1")
    (row,) = found["gpus"]
    assert (status, row["policy"], row["inUseAs"], row["health"]) == (0, "all-modes", "TimeSlicing", "ok")
    status, found = await explain(user, "policy", "all-modes")
    assert (status, found["message"]) == (0, "SharingPolicy all-modes is in force on 1 of 1 node.")

    # A GPU in use does not publish what cannot be allocated on it: explain knows what it offers otherwise.
    await user.apply(pod("third", template="whole"))
    found = await waiting_with(user, "third", "GSH0207")
    assert "pod default/first" in found["findings"][0]["message"]
    await gone(user, "first", "second", "third")


async def test_limits_of_mps(user: User) -> None:
    await user.apply(pod("first", template="mps"))
    await user.running(1)
    status, found = await explain(user, "pod", "first")
    assert (status, codes(found)) == (0, [])
    (device,) = found["devices"]
    assert (device["mode"], device["limits"]) == ("MPS", "memory 4Gi, shares 1, threads 10")
    values = {one["setting"]: one["value"] for one in found["settings"]}
    assert (values["MPS memory"], values["MPS threads"]) == ("4Gi", "10%")
    await gone(user, "first")


async def test_other_namespaces_are_counted_and_not_named(user: User) -> None:
    await user.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
    spec = template("share", claim_spec(SHARED))
    await user.apply(spec | {"metadata": spec["metadata"] | {"namespace": "ml"}})
    mine, other = pod("mine", template="share"), pod("other", template="share")
    mine["metadata"]["namespace"] = "ml"
    await user.apply(mine, other)
    await user.wait("pod/mine", "--namespace=ml", "--for=condition=Ready")
    await user.wait("pod/other", "--for=condition=Ready")
    kubeconfig = await user.cluster.user_kubeconfig("jane")
    await user.cluster.kubectl("create", "rolebinding", "jane", "-n", "ml", "--clusterrole=admin", "--user=jane")
    reader = ("create", "clusterrole", "sharing-reader", "--verb=get,list")
    await user.cluster.kubectl(*reader, "--resource=nodesharings.gpusharing.dev")
    await user.cluster.kubectl("create", "clusterrolebinding", "jane", "--clusterrole=sharing-reader", "--user=jane")
    status, found = await explain(user, "pod", "mine", "-n", "ml", kubeconfig=kubeconfig)
    assert status == 0
    assert found["devices"][0]["neighbours"] == "1 other"
    assert "other" not in json.dumps(found["devices"]).replace("1 other", "")
    await user.delete("pod", "mine", "--namespace=ml", "--now")
    await gone(user, "other")


async def test_mig_instances_are_fragmented(user: User) -> None:
    await user.apply(*(pod(f"small-{number}", template="small") for number in range(7)))
    await user.running(7)
    # Two stay, of which each keeps a large instance from starting.
    pods = await user.pods("Running")
    starts = {}
    for one in pods:
        claim = await user.claim_of(one)
        device = claim["status"]["allocation"]["devices"]["results"][0]["device"]
        starts[int(device.rpartition("-")[2])] = one["metadata"]["name"]
    stay = {starts[1], starts[5]}
    await user.delete("pods", *sorted(set(starts.values()) - stay), "--now")
    await user.running(2)
    await user.apply(pod("big", template="large"))
    found = await waiting_with(user, "big", "GSH0208")
    assert found["findings"][0]["message"].startswith("node-1/gpu-0 has ")
    await gone(user, "big", *sorted(stay))
