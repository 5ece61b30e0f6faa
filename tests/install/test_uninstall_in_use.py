"""Uninstalled while pods use GPUs: nobody disturbs them, people are told, and the end of the pods completes it."""

from pathlib import Path
from typing import Final

import pytest

from gpusharing import sim
from harness.eventually import eventually
from harness.installed_cluster import ROOT, SIMULATED, InstalledCluster
from install.running import mps_daemons, what_runs
from install.uninstalling import clean_up, cleanup_says, delete_policies, node_is_restored, nothing_is_left
from node.user import AnyUser

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

EXAMPLE: Final = ROOT / "docs" / "examples" / "all-modes.yaml"
PODS: Final = ("by-mps", "in-an-instance")


async def use_gpus(cluster: InstalledCluster, user: AnyUser) -> None:
    await cluster.apply()
    await cluster.kubectl("apply", f"--filename={EXAMPLE}")
    await user.wait(*(f"pod/{name}" for name in PODS), "--for=condition=Ready")


async def remedies(user: AnyUser) -> list[str]:
    """One for each pod, as the clean-up is to say it."""
    claims = [(await user.claim_of(await user.get("pod", name)))["metadata"]["uid"] for name in PODS]
    told = {one["uid"]: one for one in (await user.get("nodesharing", "node-1"))["status"]["claims"]}
    slots = {gpu["slot"]: gpu["uuid"] for gpu in (await user.get("nodesharing", "node-1"))["status"]["gpus"]}
    found = []
    for uid in claims:
        ((device,),) = [[setting["device"] for setting in told[uid]["settings"]]]
        uuid = slots[int(device.split("-")[1])]
        found.append(f"claim {told[uid]['claim']} uses GPU {uuid}: delete the pods that use it")
    return found


async def node_sharing_says(user: AnyUser, reason: str, *claims: str) -> None:
    async def says() -> None:
        status = (await user.get("nodesharing", "node-1"))["status"]
        (ready,) = (one for one in status["conditions"] if one["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", reason)
        assert [claim for claim in claims if claim not in ready["message"]] == []
        assert len(status["claims"]) == len(claims)

    await eventually(says)


async def test_pods_outlast_it_and_complete_it(cluster: InstalledCluster, tmp_path: Path) -> None:
    user = AnyUser(cluster)
    await use_gpus(cluster, user)
    node = sim.SimNode.open(cluster.node.simulated_directory)
    gpus, running, told = node.gpus(), await what_runs(user), await remedies(user)
    assert running.daemons

    await delete_policies(cluster)
    await clean_up(cluster)
    await cleanup_says(cluster, *told)
    await node_sharing_says(user, "CleaningUp", *told)
    assert await what_runs(user) == running
    assert node.gpus() == gpus

    # A pod that ends needs somebody who takes its claim back.
    await user.delete("pods", "--all", "--grace-period=0", "--timeout=60s")
    await node_is_restored(cluster)
    await node_sharing_says(user, "CleanedUp")
    assert await mps_daemons(user) == frozenset()
    await user.delete("resourceclaimtemplates", "--all")
    await cluster.kubectl("delete", "--kustomize", SIMULATED)
    await nothing_is_left(cluster, tmp_path)

    await use_gpus(cluster, user)
