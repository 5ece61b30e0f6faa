"""Starts a cluster to play with; it runs until harness.down. `python -m harness.up --dir .cluster`."""

import argparse
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness import supervisor, toolchain
from harness.cluster import Cluster
from harness.node import node_unavailable_reason


@asynccontextmanager
async def local_cluster(directory: Path) -> AsyncIterator[str]:
    """Gives what is printed when everything runs."""
    reason = node_unavailable_reason()
    async with Cluster(node_names=[] if reason else ["node-1"]) as cluster:
        _link(directory / "bin" / "kubectl", cluster.programs / "kubectl")
        _link(directory / "logs" / "control-plane", cluster.directory / "logs")
        for name, node in cluster.nodes.items():
            _link(directory / "logs" / name, node.directory / "logs")
        shutil.copy(cluster.kubeconfig, directory / "kubeconfig")
        try:
            yield f"export KUBECONFIG={directory}/kubeconfig" + (f"  # without a node: {reason}" if reason else "")
        finally:
            (directory / "kubeconfig").unlink()


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="gets kubeconfig, bin/kubectl and logs/")
    parser.add_argument("--foreground", action="store_true", help="run until Ctrl-C")
    arguments = parser.parse_args()
    directory: Path = arguments.dir.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    toolchain.build()  # here, where its progress is seen
    try:
        if arguments.foreground:
            supervisor.hold(directory, local_cluster(directory))
        else:
            command = [sys.executable, "-m", "harness.up", "--dir", str(directory), "--foreground"]
            print(supervisor.start_in_background(directory, command))
    except supervisor.SupervisorError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
