"""Starts a cluster with simulated GPUs, our operator and an agent, to play with; it runs until harness.down.

`python -m harness.up --dir .cluster --gpus H100-80GB:2`.
"""

import argparse
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness import supervisor, toolchain
from harness.gpu_cluster import GpuCluster
from harness.node import node_unavailable_reason

_EXAMPLES = Path("docs/examples")

_TRY = """A cluster with {gpus} runs. Three things to try:

  export KUBECONFIG={directory}/kubeconfig PATH={directory}/bin:$PATH

  kubectl apply -f {examples}/time-slicing.yaml   # a policy that shares each GPU among four, and three pods
  kubectl get sharingpolicies,nodesharings,pods   # who got what; add -o yaml for why
  nvidia-smi                                      # the node's GPUs, as their driver sees them

Logs are in {directory}/logs. `make cluster-down` ends it."""


@asynccontextmanager
async def local_cluster(directory: Path, gpus: str) -> AsyncIterator[str]:
    """Gives what is printed when everything runs."""
    async with GpuCluster(node_names=["node-1"], gpus=gpus) as cluster:
        _link(directory / "bin" / "kubectl", cluster.programs / "kubectl")
        _link(directory / "bin" / "nvidia-smi", cluster.sim_node.nvidia_smi)
        _link(directory / "logs" / "control-plane", cluster.directory / "logs")
        _link(directory / "logs" / cluster.node.name, cluster.node.directory / "logs")
        shutil.copy(cluster.kubeconfig, directory / "kubeconfig")
        try:
            yield _TRY.format(gpus=gpus, directory=directory, examples=_EXAMPLES)
        finally:
            (directory / "kubeconfig").unlink()


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dir", type=Path, required=True, help="gets kubeconfig, bin/ with kubectl and nvidia-smi, and logs/"
    )
    parser.add_argument("--foreground", action="store_true", help="run until Ctrl-C")
    parser.add_argument("--gpus", default="H100-80GB:2", help="such as H100-80GB:2,A100-40GB:1")
    arguments = parser.parse_args()
    if reason := node_unavailable_reason():
        sys.exit(f"no cluster with a node here: {reason}")
    directory: Path = arguments.dir.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    toolchain.build()  # here, where its progress is seen
    try:
        if arguments.foreground:
            supervisor.hold(directory, local_cluster(directory, arguments.gpus))
        else:
            options = ["--dir", str(directory), "--gpus", arguments.gpus]
            command = [sys.executable, "-m", "harness.up", *options, "--foreground"]
            print(supervisor.start_in_background(directory, command))
    except supervisor.SupervisorError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
