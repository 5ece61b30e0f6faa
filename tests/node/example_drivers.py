"""Kubernetes' example of a driver for devices, several times on one node: each time as another driver."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from harness.cluster import Cluster
from harness.processes import Process
from harness.readiness import accepts

GPU: Final = "gpu.example.com"
NET: Final = "net.example.com"
CPU: Final = "cpu.example.com"
PARTITIONS: Final = "partitions.example.com"
SHARED: Final = "shared.example.com"
SHARED_PARTITIONS: Final = "shared-partitions.example.com"

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    GPU: ("--num-devices=16", "--gpu-device-status"),
    NET: ("--device-profile=net", "--num-devices=2"),
    CPU: ("--device-profile=cpu", "--cpu-numa-nodes=2"),
    PARTITIONS: ("--num-devices=1", "--gpu-partitions=4"),
    SHARED: ("--num-devices=1", "--gpu-allow-multiple-allocations"),
    SHARED_PARTITIONS: ("--num-devices=1", "--gpu-partitions=4", "--gpu-allow-multiple-allocations"),
}
"""By the driver's name."""
EXTENDED: Final = "example.com/gpu"
"""The extended resource of the first."""

_ACCOUNT: Final = "example-driver"


def manifests() -> list[dict[str, Any]]:
    """What their chart installs, but for the program itself."""
    named = {"name": _ACCOUNT, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ACCOUNT}
    claims = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list", "watch"]}
    status = {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaims/status"],
        "verbs": ["update", "patch"],
    }
    of_driver = {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaims/driver"],
        "verbs": ["associated-node:update", "associated-node:patch"],
        "resourceNames": list(OPTIONS),
    }
    slices = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["*"]}
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {
            "apiVersion": rbac,
            "kind": "ClusterRole",
            "metadata": {"name": _ACCOUNT},
            "rules": [claims, status, of_driver, slices, nodes],
        },
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": _ACCOUNT},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", **named}],
        },
        *(_class(driver) for driver in OPTIONS),
    ]


def _class(driver: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}
    if driver == GPU:
        spec["extendedResourceName"] = EXTENDED
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": driver}, "spec": spec}


@asynccontextmanager
async def running(cluster: Cluster, program: Path) -> AsyncIterator[Mapping[str, Process]]:
    """All of them on the only node, by their names; the manifests are applied."""
    kubeconfig = await cluster.service_account_kubeconfig("default", _ACCOUNT, node=cluster.node.name)
    found = {driver: _plugin(cluster, program, driver, kubeconfig) for driver in OPTIONS}
    async with AsyncExitStack() as stack:
        async with asyncio.TaskGroup() as tasks:
            for plugin in found.values():
                tasks.create_task(stack.enter_async_context(plugin.killed_at_end()))
        yield found


def _plugin(cluster: Cluster, program: Path, driver: str, kubeconfig: Path) -> Process:
    node = cluster.node
    registry = node.kubelet_root / "plugins_registry"
    _, run = node.cdi_dirs
    arguments = [
        f"--node-name={node.name}",
        f"--driver-name={driver}",
        f"--kubeconfig={kubeconfig}",
        f"--cdi-root={run}",
        f"--kubelet-registrar-directory-path={registry}",
        f"--kubelet-plugins-directory-path={node.kubelet_root / 'plugins'}",
    ]
    return node.process(
        [program, *arguments, *OPTIONS[driver]],
        log=node.directory / "logs" / f"{driver}.log",
        ready=lambda: accepts(registry / f"{driver}-reg.sock"),
        env={"NODE_NAME": node.name},
    )
