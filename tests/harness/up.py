"""Starts a cluster with simulated GPUs to play with, in which operator and agent are installed; it runs until
harness.down.

`python -m harness.up --dir .cluster --gpus H100-80GB:2`.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from gpusharing.sim import SimNode
from harness import supervisor, toolchain
from harness.installed_cluster import NAMESPACE, SIMULATED, InstalledCluster, build_images
from harness.node import node_unavailable_reason

_EXAMPLES = Path("docs/examples")

_TRY = """A cluster with {gpus} runs. Operator and agent run in it as pods, as manifests/overlays/simulated has them.

Four things to try:

  export KUBECONFIG={directory}/kubeconfig PATH={directory}/bin:$PATH

  kubectl apply -f {examples}/time-slicing.yaml               # a policy that shares each GPU among four, and three pods
  kubectl get sharingpolicies,nodesharings,pods                  # who got what; add -o yaml for why
  nvidia-smi                                                     # the node's GPUs, as their driver sees them
  kubectl logs -n {namespace} ds/gpusharing-agent -c agent # what the agent has done

To see a pod wait for a share: kubectl scale deployment sharers --replicas 9. More policies are in {examples}.
Delete one with kubectl delete -f before you apply the next: each GPU has one policy.

Logs of Kubernetes are in {directory}/logs. `make cluster-down` ends it."""


@asynccontextmanager
async def local_cluster(directory: Path, gpus: str, archives: Sequence[Path]) -> AsyncIterator[str]:
    """Gives what is printed when everything runs."""
    async with InstalledCluster(node_names=["node-1"], archives=archives) as cluster:
        await cluster.apply(_kustomization(cluster.directory / "manifests", gpus))
        _link(directory / "bin" / "kubectl", cluster.programs / "kubectl")
        _link(directory / "bin" / "nvidia-smi", SimNode.open(cluster.node.simulated_directory).nvidia_smi)
        _link(directory / "logs" / "control-plane", cluster.directory / "logs")
        _link(directory / "logs" / cluster.node.name, cluster.node.directory / "logs")
        shutil.copy(cluster.kubeconfig, directory / "kubeconfig")
        try:
            yield _TRY.format(gpus=gpus, directory=directory, examples=_EXAMPLES, namespace=NAMESPACE)
        finally:
            (directory / "kubeconfig").unlink()


def _kustomization(directory: Path, gpus: str) -> Path:
    """The manifests for simulated nodes, with these GPUs."""
    has_gpus = {"op": "replace", "path": "/spec/template/spec/initContainers/0/args/0", "value": f"--gpus={gpus}"}
    directory.mkdir()
    content = {
        "resources": [os.path.relpath(SIMULATED, directory.resolve())],
        "patches": [{"target": {"kind": "DaemonSet"}, "patch": json.dumps([has_gpus])}],
    }
    (directory / "kustomization.yaml").write_text(json.dumps(content))
    return directory


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
    # Here, where its progress is seen.
    print("Building Kubernetes and the images, unless they are built: up to a quarter of an hour", file=sys.stderr)
    toolchain.build()
    archives = build_images()
    try:
        if arguments.foreground:
            supervisor.hold(directory, local_cluster(directory, arguments.gpus, archives))
        else:
            options = ["--dir", str(directory), "--gpus", arguments.gpus]
            print("Starting the cluster: about a minute", file=sys.stderr)
            command = [sys.executable, "-m", "harness.up", *options, "--foreground"]
            print(supervisor.start_in_background(directory, command))
    except supervisor.SupervisorError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
