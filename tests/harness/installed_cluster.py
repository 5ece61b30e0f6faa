"""A cluster for installations as people make them: operator and agent run as pods of the image."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.cluster import Cluster
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
    built = subprocess.run(
        [sys.executable, ROOT / "tools/image/build.py"], check=True, stdout=subprocess.PIPE, text=True
    )
    return [ROOT / line.split()[0] for line in built.stdout.splitlines()]


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
