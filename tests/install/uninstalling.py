"""Uninstalling as docs/install.md says, and what has to be left then."""

import re
import shlex
from pathlib import Path
from typing import Final

from gpusharing import sim
from harness.commands import CommandError
from harness.eventually import eventually
from harness.installed_cluster import ROOT, InstalledCluster

_PAGE: Final = (ROOT / "docs/install.md").read_text()
# All that we or our programs make beside what is in our namespace.
_KINDS: Final = (
    "resourceslices",
    "deviceclasses",
    "devicetaintrules",
    "resourcequotas",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "customresourcedefinitions",
    "namespaces",
)
_KUBERNETES_OWN: Final = {f"namespaces/{name}" for name in ("default", "kube-node-lease", "kube-public", "kube-system")}
_CLEAN_UP, _READ_LOGS = re.findall(r"^   kubectl ((?:patch|logs)[^`]*)\n   ```", _PAGE, re.MULTILINE)


async def delete_policies(cluster: InstalledCluster) -> None:
    """And with them their classes. Kubernetes' garbage collector notices new kinds only every half a minute, and cannot
    look for the owners of classes once the kind has gone."""
    await cluster.kubectl("delete", "sharingpolicies", "--all")

    async def classes_are_gone() -> None:
        classes = (await cluster.get("deviceclasses"))["items"]
        owners = [owner["kind"] for one in classes for owner in one["metadata"].get("ownerReferences", ())]
        assert "SharingPolicy" not in owners

    await eventually(classes_are_gone)


async def clean_up(cluster: InstalledCluster) -> None:
    """Begins it on each node."""
    await cluster.kubectl(*shlex.split(_CLEAN_UP))


async def cleanup_says(cluster: InstalledCluster, *parts: str) -> None:
    async def says() -> None:
        try:
            said = await cluster.kubectl(*shlex.split(_READ_LOGS))
        except CommandError as error:
            said = str(error)  # a container that has not started
        assert [part for part in parts if part not in said] == [], said

    await eventually(says)


async def node_is_restored(cluster: InstalledCluster) -> None:
    await cleanup_says(cluster, "nothing of the agent is left on this node")


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
        left = [file for file in files if file.name != "lock"]
        assert left == [], left
        listed = {kind: (await cluster.get(kind, "--all-namespaces"))["items"] for kind in _KINDS}
        objects = {f"{kind}/{one['metadata']['name']}" for kind, items in listed.items() for one in items}
        assert objects == _KUBERNETES_OWN

    # The kubelet withdraws the devices of a driver half a minute after its end.
    await eventually(is_gone)
