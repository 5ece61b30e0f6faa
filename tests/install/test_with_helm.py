"""Helm: from `helm install` to the first pod with a share of a GPU; other values; and uninstalled as README.md says."""

import re
import shlex
import time
from pathlib import Path
from typing import Final

import pytest

from gpusharing import sim
from harness.commands import CommandError, run
from harness.eventually import eventually
from harness.installed_cluster import NAMESPACE, OPERATOR, ROOT, InstalledCluster
from harness.workloads import claim_spec, pod, template, time_slicing
from node.user import SHARED, AnyUser

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

CHART: Final = ROOT / "charts" / "gpu-sharing"
RELEASE: Final = "gpu-sharing"
POLICY: Final = time_slicing("quarters", clients=4)
README: Final = (ROOT / "README.md").read_text()
# All that we or our programs make beside what is in our namespace.
KINDS: Final = (
    "resourceslices,deviceclasses,devicetaintrules,resourcequotas,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,customresourcedefinitions,namespaces"
)
KUBERNETES_OWN: Final = {f"namespace/{name}" for name in ("default", "kube-node-lease", "kube-public", "kube-system")}


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
    return AnyUser(cluster, cluster.node.state_directory)


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
    await run_helm("rollback", RELEASE)
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
    await user.delete("sharingpolicies", "--all")
    await user.delete("pods", "--all", "--grace-period=0")
    await user.delete("resourceclaimtemplates", "--all")
    clean_up, read_logs = re.findall(r"^   kubectl ((?:patch|logs)[^`]*)\n   ```", README, re.MULTILINE)
    await cluster.kubectl(*shlex.split(clean_up))

    async def is_restored() -> None:
        try:
            said = await cluster.kubectl(*shlex.split(read_logs))
        except CommandError as error:
            said = str(error)  # a container that has not started
        assert "nothing of the agent is left on this node" in said

    await eventually(is_restored)
    await run_helm("uninstall", RELEASE, "--wait")
    # The chart keeps them, as it says: with them go all policies.
    await cluster.kubectl("delete", "--kustomize", ROOT / "crds")
    await cluster.kubectl("delete", "namespace", NAMESPACE)


async def nothing_is_left(cluster: InstalledCluster, tmp_path: Path) -> None:
    node = cluster.node
    new = sim.create(tmp_path / "new", "H100-80GB:2", seed=node.name)
    assert sim.SimNode.open(node.simulated_directory).gpus() == new.gpus()
    _, cdi = node.cdi_dirs
    places = [
        cdi,
        node.state_directory,
        node.seen_from_outside("/run/gpusharing"),
        node.kubelet_root / "plugins" / "gpu.nvidia.com",
        node.kubelet_root / "plugins_registry",
    ]

    async def is_gone() -> None:
        files = [file for place in places if place.is_dir() for file in place.iterdir()]
        # The last attempt may have been interrupted between taking its lock and removing it.
        assert [file for file in files if file.name != "lock"] == []
        listed = await cluster.kubectl("get", KINDS, "--all-namespaces", "--output=name")
        assert set(listed.split()) <= KUBERNETES_OWN

    # The kubelet withdraws the devices of a driver half a minute after its end.
    await eventually(is_gone)
