"""The simulated nodes: GPUs, an agent and a kubelet each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusharing.api import names
from gpusharing.demo import programs
from gpusharing.demo.cluster import Cluster
from gpusharing.demo.kubelet import MIRROR, Kubelet
from gpusharing.demo.programs import Program
from gpusharing.sim import node as sim
from gpusharing.sim.node import SimNode

GPUS: Final = {"hopper": "H100-80GB:2", "ampere": "A100-80GB:2", "ada": "L4:2"}
"""Of each node, by its name."""


@dataclass(kw_only=True, eq=False)
class DemoNode:
    name: str
    gpus: SimNode
    agent: Program
    kubelet: Kubelet
    listen: str
    """Host and port of its agent."""

    @property
    def metrics(self) -> str:
        return f"http://{self.listen}/metrics"

    async def reboot(self) -> None:
        """With it the agent and all containers begin anew."""
        await self.agent.stop()
        self.gpus.reboot()
        self.agent.start()


def make(name: str, gpus: str, directory: Path, kubeconfig: Path, cluster: Cluster, *, is_isolated: bool) -> DemoNode:
    """Nothing of it runs yet. `kubeconfig`: its agent's."""
    node = sim.create(directory / "gpus", gpus, seed=name)
    listen = programs.free_address()
    return DemoNode(
        name=name,
        gpus=node,
        agent=programs.agent(name, node, kubeconfig, directory, listen=listen),
        kubelet=Kubelet(
            cluster,
            name,
            node,
            root=directory / "kubelet",
            cdi=programs.cdi_directories(node, directory),
            containers=directory / "containers",
            is_isolated=is_isolated,
        ),
        listen=listen,
    )


def as_object(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def agent_pod(node: DemoNode) -> dict[str, Any]:
    """The agent is a process without a pod. By this object commands find what it measures."""
    port = int(node.listen.rpartition(":")[2])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{names.AGENT}-{node.name}",
            "namespace": names.NAMESPACE,
            "labels": {names.PROGRAM_LABEL: names.AGENT},
            "annotations": {MIRROR: "demo"},
        },
        "spec": {
            "nodeName": node.name,
            "hostNetwork": True,
            "containers": [
                {"name": "agent", "image": "gpusharing", "ports": [{"name": "http", "containerPort": port}]}
            ],
        },
    }


def agent_pod_status(node: DemoNode) -> dict[str, Any]:
    return {"status": {"phase": "Running", "podIP": node.listen.rpartition(":")[0]}}


def ready() -> dict[str, Any]:
    """The status that a kubelet reports."""
    return {
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "capacity": {"pods": "110"},
            "allocatable": {"pods": "110"},
        }
    }
