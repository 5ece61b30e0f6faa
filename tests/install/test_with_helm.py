"""Helm: from `helm install` to the first pod with a share of a GPU; other values; and uninstalled as docs/install.md
says."""

import time
from pathlib import Path
from typing import Final

import pytest

from harness.commands import run
from harness.installed_cluster import NAMESPACE, OPERATOR, ROOT, InstalledCluster
from harness.workloads import claim_spec, pod, template, time_slicing
from install.uninstalling import clean_up, delete_policies, node_is_restored, nothing_is_left
from node.user import SHARED, AnyUser

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

CHART: Final = ROOT / "charts" / "gpu-sharing"
RELEASE: Final = "gpu-sharing"
POLICY: Final = time_slicing("quarters", clients=4)


class Helm:
    def __init__(self, program: Path, cluster: InstalledCluster) -> None:
        self._program = program
        self._cluster = cluster

    async def __call__(self, *arguments: str | Path) -> str:
        common = [f"--namespace={NAMESPACE}", f"--kubeconfig={self._cluster.kubeconfig}"]
        directory = self._cluster.directory / "helm"
        homes = {f"HELM_{kind}_HOME": str(directory / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return await run([self._program, *arguments, *common], env=homes)


@pytest.fixture
def user(cluster: InstalledCluster) -> AnyUser:
    return AnyUser(cluster)


async def test_install_upgrade_uninstall(cluster: InstalledCluster, helm: Path, user: AnyUser, tmp_path: Path) -> None:
    run_helm = Helm(helm, cluster)
    began = time.monotonic()
    await run_helm("install", RELEASE, CHART, "--create-namespace", "--set=simulated.enabled=true")
    await user.apply(POLICY, template("share", claim_spec(SHARED)), pod("first", template="share"))
    await user.wait("pod/first", "--for=condition=Ready")
    print(f"from helm install to the first shared pod running: {time.monotonic() - began:.1f} s")
    await cluster.rolled_out()
    containers = await running(user)

    await run_helm(
        "upgrade", RELEASE, CHART, "--reuse-values", "--set=operator.replicas=1,agent.resources.requests.cpu=30m"
    )
    await cluster.rolled_out()
    assert (await user.get(OPERATOR, f"--namespace={NAMESPACE}"))["spec"]["replicas"] == 1
    await user.apply(pod("second", template="share"))
    await user.wait("pod/second", "--for=condition=Ready")
    # The operator has written into the guards meanwhile, as docs/operating.md says.
    await run_helm("rollback", RELEASE, "--force-conflicts")
    await cluster.rolled_out()
    assert (await user.get(OPERATOR, f"--namespace={NAMESPACE}"))["spec"]["replicas"] == 2
    assert containers <= await running(user)

    await uninstall(cluster, run_helm, user)
    await nothing_is_left(cluster, tmp_path)


async def running(user: AnyUser) -> set[tuple[str, int]]:
    pods = (await user.get("pods"))["items"]
    statuses = [status for each in pods for status in each["status"].get("containerStatuses", [])]
    return {(status["containerID"], status["restartCount"]) for status in statuses}


async def uninstall(cluster: InstalledCluster, run_helm: Helm, user: AnyUser) -> None:
    await delete_policies(cluster)
    await user.delete("pods", "--all", "--grace-period=0")
    await user.delete("resourceclaimtemplates", "--all")
    await clean_up(cluster)
    await node_is_restored(cluster)
    await run_helm("uninstall", RELEASE, "--wait")
    # The chart keeps them, as it says: with them go all policies.
    await cluster.kubectl("delete", "--kustomize", ROOT / "crds")
    await cluster.kubectl("delete", "namespace", NAMESPACE)
