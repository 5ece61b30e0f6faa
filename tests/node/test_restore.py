"""Etcd is put back to an older copy. Nobody restarts our programs, and they go on in the history that there is."""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpusharing.api import names
from harness.etcd_copy import EtcdCopy, raise_revision
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim_spec, pod, policy, template
from node.test_life import CLASSES, OFFERS, Witnesses
from node.user import User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: Path) -> AsyncIterator[GpuCluster]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:8") as cluster:
        yield cluster


def modes_of_gpus(cluster: GpuCluster) -> dict[str, set[str]]:
    """In which ways claims hold each GPU that is held, by what the agent has on disk."""
    modes: dict[str, set[str]] = defaultdict(set)
    for path in (cluster.state_directory(cluster.node) / "claims").glob("*.json"):
        for device in json.loads(path.read_text())["content"]["devices"]:
            modes[device["uuid"]].add(str(names.sharing_of_device(device["device"])))
    return modes


def logged(log: Path, event: str) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [entry for entry in entries if entry["event"] == event]


@pytest.mark.parametrize("away", [0, 12], ids=["away for a moment", "away for longer than the lease is trusted"])
async def test_etcd_is_put_back_to_an_older_copy(cluster: GpuCluster, away: float) -> None:
    user, name = User(cluster), f"away-{away}"
    await user.apply(policy("all-ways", offers=OFFERS), *(template(way, claim_spec(CLASSES[way])) for way in CLASSES))
    await user.wait("sharingpolicy/all-ways", "--for=condition=Ready")
    witnesses = Witnesses(user)
    for way in CLASSES:
        await witnesses.begin(f"{name}-{way}", way)
    agent = cluster.agent.pid
    said = len(logged(cluster.agent.log, "history went back"))
    copy = EtcdCopy(cluster)

    await raise_revision(cluster, by=2000)
    await user.apply(policy("lost", priority=7, gpus={"maxPerNode": 1}, offers={"timeSlicing": {"maxClients": 3}}))
    await user.wait("sharingpolicy/lost", "--for=condition=Ready")
    await user.apply(pod(f"{name}-lost", template="share"))
    await user.wait(f"pod/{name}-lost", "--for=condition=Ready")
    await copy.put_back(away=away)
    back = time.monotonic()
    # As Kubernetes asks for it.
    await asyncio.gather(
        cluster.controller_manager.restart(), cluster.scheduler.restart(), cluster.node.kubelet.restart()
    )

    await user.apply(policy("new", priority=5, gpus={"maxPerNode": 1}, offers={"timeSlicing": {"maxClients": 2}}))
    await user.wait("sharingpolicy/new", "--for=condition=Ready")
    print(f"a new policy is Ready {time.monotonic() - back:.1f} s after the API server is back")
    for way in CLASSES:
        await user.apply(pod(f"{name}-{way}-new", template=way))
    for way in CLASSES:
        await user.wait(f"pod/{name}-{way}-new", "--for=condition=Ready")
        assert max(map(len, modes_of_gpus(cluster).values())) == 1
    await witnesses.are_undisturbed()
    sharing = await user.get("nodesharing", "node-1")
    told = {device["device"] for gpu in sharing["status"]["gpus"] for device in gpu["published"]}
    assert set(await user.devices()) == told
    assert {(gpu.get("policy") or {}).get("name") for gpu in sharing["spec"]["gpus"]} == {"all-ways", "new"}
    # Nobody has restarted the agent, not even itself: MPS clients would end with it.
    assert (cluster.agent.pid, cluster.agent.running) == (agent, True)
    assert {entry["kind"] for entry in logged(cluster.agent.log, "history went back")[said:]} <= {
        "NodeSharing",
        "ResourceSlice",
    }
    assert len(logged(cluster.agent.log, "history went back")) > said

    await user.delete("sharingpolicies", "new")
    await user.delete("pods", "--all", "--force", "--grace-period=0")


async def test_claims_of_pods_that_the_api_does_not_know_are_given_back(cluster: GpuCluster) -> None:
    """Those of both tests before: the kubelet looks for them once a minute."""

    async def given_back() -> None:
        assert not modes_of_gpus(cluster)

    await eventually(given_back, within=120)
