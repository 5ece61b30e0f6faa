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
from harness.go_module import ToolchainError
from harness.installed_cluster import NAMESPACE, SIMULATED, InstalledCluster, build_images
from harness.logged import LoggedProgramError
from harness.node import node_unavailable_reason
from harness.progress import PROGRESS, Stages
from harness.system import MissingProgramError

_EXAMPLES = Path("docs/examples")
_KUBECONFIG = "kubeconfig"
_GPUS = "gpus"

_TRY = """A cluster with {gpus} runs, and its GPUs can be allocated. Operator and agent run in it as pods, as
manifests/overlays/simulated has them.

Things to try:

  export KUBECONFIG={directory}/kubeconfig PATH={directory}/bin:$PATH

  kubectl apply -f {examples}/time-slicing.yaml               # a policy that shares each GPU among four, and three pods
  gpusharing top                                                 # which pods are on which GPU; -w to watch
  gpusharing ui                                                  # the same as a page in the browser
  kubectl scale deployment sharers --replicas 9                  # one more than fits
  gpusharing explain $(kubectl get pods --field-selector status.phase=Pending -o name)  # why the ninth waits
  kubectl get sharingpolicies,nodesharings,pods                  # add -o yaml for why
  nvidia-smi                                                     # the node's GPUs, as their driver sees them
  kubectl logs -n {namespace} ds/gpusharing-agent -c agent # what the agent has done

More policies are in {examples}. Delete one with kubectl delete -f before you apply the next: each GPU has one policy.

Logs of Kubernetes are in {directory}/logs. `make cluster-down` ends it."""


@asynccontextmanager
async def local_cluster(directory: Path, gpus: str, archives: Sequence[Path]) -> AsyncIterator[str]:
    """Gives what is printed when pods can get the GPUs."""
    (directory / _GPUS).write_text(gpus)
    # Of a cluster that was killed.
    (directory / _KUBECONFIG).unlink(missing_ok=True)
    PROGRESS.say("Starting Kubernetes and a node")
    async with InstalledCluster(node_names=["node-1"], archives=archives) as cluster:
        PROGRESS.say("Installing operator and agent")
        await cluster.apply(_kustomization(cluster.directory / "manifests", gpus))
        PROGRESS.say("Waiting until the GPUs can be allocated")
        await cluster.allocatable(len(SimNode.open(cluster.node.simulated_directory).gpus()))
        _link(directory / "bin" / "kubectl", cluster.programs / "kubectl")
        for command in ("gpusharing", "kubectl-gpusharing"):
            _link(directory / "bin" / command, Path(sys.executable).with_name(command))
        _link(directory / "bin" / "nvidia-smi", SimNode.open(cluster.node.simulated_directory).nvidia_smi)
        _link(directory / "logs" / "control-plane", cluster.directory / "logs")
        _link(directory / "logs" / cluster.node.name, cluster.node.directory / "logs")
        shutil.copy(cluster.kubeconfig, directory / _KUBECONFIG)
        try:
            yield _what_to_try(directory, gpus)
        finally:
            (directory / _KUBECONFIG).unlink()


def _what_to_try(directory: Path, gpus: str) -> str:
    return _TRY.format(gpus=gpus, directory=directory, examples=_EXAMPLES, namespace=NAMESPACE)


def _report_running(directory: Path, process: int, gpus: str) -> None:
    """There is a cluster already."""
    if not (directory / _KUBECONFIG).exists():
        sys.exit(f"process {process} starts or ends a cluster here: its log is {supervisor.log_of(directory)}")
    if (existing := (directory / _GPUS).read_text()) != gpus:
        sys.exit(f"a cluster with {existing} runs here, not with {gpus}: end it with `make cluster-down` first")
    print(f"Nothing to do: process {process} keeps it running.\n\n{_what_to_try(directory, gpus)}")


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
    if process := supervisor.process_of(directory):
        _report_running(directory, process, arguments.gpus)
        return
    try:
        _start(directory, arguments.gpus, foreground=arguments.foreground)
    except (
        LoggedProgramError, MissingProgramError, supervisor.SupervisorError, ToolchainError
    ) as error:  # fmt: skip
        PROGRESS.clear()
        sys.exit(f"error: {error}")


def _start(directory: Path, gpus: str, *, foreground: bool) -> None:
    # Here, where its progress is seen.
    toolchain.build()
    toolchain.build_network_plugins()
    archives = build_images()
    if foreground:
        supervisor.hold(directory, local_cluster(directory, gpus, archives))
        return
    command = [sys.executable, "-m", "harness.up", "--dir", str(directory), "--gpus", gpus, "--foreground"]
    stages = Stages("Cluster")
    text = supervisor.start_in_background(directory, command, stages.follow)
    stages.end()
    print(text)


if __name__ == "__main__":
    main()
