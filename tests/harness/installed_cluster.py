"""A cluster for installations as people make them: operator and agent run as pods of the image."""

import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.allocatable import missing_devices
from harness.cache import CACHE
from harness.cluster import Cluster
from harness.commands import run
from harness.eventually import eventually
from harness.logged import run_logged
from harness.progress import Stages
from harness.system import system_program

ROOT: Final = Path(__file__).parents[2]
SIMULATED: Final = ROOT / "manifests" / "overlays" / "simulated"
NAMESPACE: Final = "gpusharing-system"
OPERATOR: Final = "deployment/gpusharing-operator"
AGENT: Final = "daemonset/gpusharing-agent"

_IMAGES: Final = ("gpusharing", "gpusharing-simulated-node")


def build_images() -> list[Path]:
    """Their archives; the first call takes some minutes, and so does one after a change of the sources."""
    for program in ("buildah", "mmdebstrap"):
        system_program(program, package=program)
    stages = Stages("Images")
    built = run_logged([sys.executable, ROOT / "tools/image/build.py"], CACHE / "images.log", stages.follow)
    stages.end()
    return [ROOT / line.split()[0] for line in built.splitlines()]


@dataclass(kw_only=True, eq=False, repr=False)
class InstalledCluster(Cluster):
    """Its nodes have the images, and the label for simulated GPUs."""

    archives: Sequence[Path]

    with_pod_network: bool = True
    # MPS daemons outlive the agent's container only there.
    with_cgroup2: bool = True

    async def apply(self, manifests: Path = SIMULATED) -> None:
        """Returns when everything runs."""
        await self.kubectl("apply", "--kustomize", manifests)
        await self.rolled_out()

    async def rolled_out(self) -> None:
        for workload in (OPERATOR, AGENT):
            await self.kubectl("rollout", "status", workload, f"--namespace={NAMESPACE}", "--timeout=180s")

    async def allocatable(self, gpus: int) -> None:
        """Returns when pods can get so many GPUs on each node, and `gpusharing doctor` finds all well."""

        async def are_published() -> None:
            slices = (await self.get("resourceslices"))["items"]
            assert [missing_devices(slices, node, gpus) for node in self.nodes] == [""] * len(self.nodes)

        await eventually(are_published)
        doctor = ["doctor", "--wait=2m", "--output=short", f"--kubeconfig={self.kubeconfig}"]
        # What it finds, it prints; errors are shown.
        await run(["sh", "-c", 'exec "$@" >&2', "sh", sys.executable, "-m", "gpusharing", *doctor])

    async def agent_pod(self) -> dict[str, Any]:
        """The only node's."""
        selector = "app.kubernetes.io/name=gpusharing-agent"
        listed = await self.get("pods", f"--namespace={NAMESPACE}", f"--selector={selector}")
        pods = [pod for pod in listed["items"] if "deletionTimestamp" not in pod["metadata"]]
        (pod,) = pods
        found: dict[str, Any] = pod
        return found

    async def _start(self, stack: AsyncExitStack) -> None:
        await super()._start(stack)
        for node in self.nodes.values():
            for archive in self.archives:
                await node.import_image(archive)
            for image in _IMAGES:
                await node.name_image(f"localhost/{image}:dev", f"docker.io/library/{image}:dev")
            await self.kubectl("label", "node", node.name, "gpusharing.dev/simulated=true")
