"""A cluster without kubelets, in which a test brings a finding about and asks `gpusharing doctor` for it."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent.on_cluster import SHARINGS, Admin
from controller.bed import Operator
from explaining.bed import SLICES, our_slices
from gpusharing.api.names import API_VERSION
from gpusharing.core.publishing.slice_updates import slice_name
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.gpu_cluster import MANIFESTS, NAMESPACE
from harness.ready_nodes import UNTAINTED, ready_node

Json = dict[str, Any]

NODES: Final = ("n0", "n1", "n2", "n3", "n4")
DRIVER: Final = "gpu.nvidia.com"
HAS_GPUS: Final = {"nvidia.com/gpu.present": "true"}
SYSTEM_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
NEWEST: Final = {"kubeletVersion": "v1.37.1", "containerRuntimeVersion": "containerd://2.3.5"}
_SINCE: Final = "2026-11-20T00:00:00Z"


class Diagnosed(NamedTuple):
    exit: int
    checks: Sequence[Json]

    @property
    def findings(self) -> Sequence[Json]:
        return [one for check in self.checks for one in check["findings"]]

    @property
    def codes(self) -> set[str]:
        return {one["code"] for one in self.findings}

    def said(self, code: str) -> str:
        return " | ".join(one["message"] for one in self.findings if one["code"] == code)

    @property
    def states(self) -> Mapping[str, str]:
        return {check["name"]: check["state"] for check in self.checks}


def condition(type_: str, *, is_so: bool = True, reason: str = "Ready", message: str = "") -> Json:
    status = "True" if is_so else "False"
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": _SINCE}


def gpu_node(
    name: str,
    *,
    labels: Mapping[str, str] = HAS_GPUS,
    info: Mapping[str, str] = NEWEST,
    offers: Mapping[str, str] | None = None,
) -> Json:
    """`offers`: what a device plugin has made allocatable."""
    node = ready_node(name)
    node["metadata"]["labels"] = dict(labels)
    node["status"] = {**node["status"], "nodeInfo": dict(info)}
    for field in ("allocatable", "capacity"):
        node["status"][field] = {**node["status"][field], **(offers or {})}
    return node


class Bed:
    operator: Operator

    def __init__(self, control_plane: ControlPlane, admin: Admin) -> None:
        self.control_plane = control_plane
        self.admin = admin

    async def doctor(self, *arguments: str, kubeconfig: Path | None = None) -> Diagnosed:
        code, out, err = await self.run(*arguments, "-o", "json", kubeconfig=kubeconfig)
        assert out, err
        return Diagnosed(code, json.loads(out)["checks"])

    async def run(self, *arguments: str, kubeconfig: Path | None = None) -> tuple[int, str, str]:
        process = await self.start(*arguments, kubeconfig=kubeconfig)
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    async def start(self, *arguments: str, kubeconfig: Path | None = None) -> asyncio.subprocess.Process:
        command = [sys.executable, "-m", "gpusharing", "doctor", *arguments]
        return await asyncio.create_subprocess_exec(
            *command,
            "--kubeconfig",
            str(kubeconfig or self.control_plane.kubeconfig),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "COLUMNS": "100"},
        )

    async def install(self) -> None:
        await self.control_plane.kubectl("apply", "--kustomize", MANIFESTS)
        await self.control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all")

    async def monitor(self) -> None:
        await self.control_plane.kubectl("apply", "--kustomize", MANIFESTS.parent / "components" / "monitoring")

    async def add_node(self, node: Json) -> None:
        await self.admin.call("POST", "/api/v1/nodes", node)
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        await self.admin.merge(path, UNTAINTED)
        await self.admin.merge(f"{path}/status", {"status": node["status"]})

    async def report(self, node: str, *, problem: Json | None = None, unhealthy: Json | None = None) -> None:
        """As its agent does. `problem`: a condition of the node; `unhealthy`: one of its GPU."""
        found = await self.admin.call("GET", f"{SHARINGS}/{node}", absent=True)
        if found is None:
            body = {"apiVersion": API_VERSION, "kind": "NodeSharing", "metadata": {"name": node}, "spec": {}}
            await self.admin.call("POST", SHARINGS, body)
        gpu = {
            "uuid": f"GPU-{node}",
            "slot": 0,
            "minor": 0,
            "model": "NVIDIA H100 80GB HBM3",
            "memory": "81559Mi",
            "pool": node,
            "published": [{"device": "gpu-0"}],
            "conditions": [unhealthy or condition("Healthy", reason="Healthy")],
        }
        conditions = [problem or condition("Ready"), condition("StateTrusted", reason="Trusted")]
        await self.admin.merge(f"{SHARINGS}/{node}/status", {"status": {"gpus": [gpu], "conditions": conditions}})

    async def publish(self, node: str) -> None:
        for index, spec in enumerate(our_slices(node)):
            metadata = {"name": slice_name(index, pool=node, driver=DRIVER)}
            await self.admin.call("POST", SLICES, {"metadata": metadata, "spec": spec})

    async def pods(self) -> Sequence[Json]:
        items: list[Json] = (await self.admin.call("GET", SYSTEM_PODS))["items"]
        return [one for one in items if "deletionTimestamp" not in one["metadata"]]

    async def set_ready(self, pod: Json, *, waiting: Json | None = None) -> None:
        ready = condition("Ready", is_so=waiting is None)
        status: Json = {"phase": "Running", "conditions": [ready]}
        if waiting is not None:
            container = {"name": "agent", "ready": False, "restartCount": 0, "image": "x", "imageID": ""}
            status["containerStatuses"] = [{**container, "state": {"waiting": waiting}}]
        await self.admin.merge(f"{SYSTEM_PODS}/{pod['metadata']['name']}/status", {"status": status})

    async def all_ready(self) -> None:
        """As kubelets have it when everything runs: two replicas, and an agent on each node."""

        async def check() -> None:
            pods = await self.pods()
            assert len(pods) == 2 + len(NODES)
            for pod in pods:
                assert pod["spec"].get("nodeName")
                conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
                if conditions.get("Ready") != "True":
                    await self.set_ready(pod)
            workloads = f"/apis/apps/v1/namespaces/{NAMESPACE}"
            daemon_set = await self.admin.call("GET", f"{workloads}/daemonsets/gpusharing-agent")
            deployment = await self.admin.call("GET", f"{workloads}/deployments/gpusharing-operator")
            assert daemon_set["status"].get("numberReady") == len(NODES)
            assert deployment["status"].get("availableReplicas") == 2

        await eventually(check)

    async def agent_of(self, node: str) -> Json:
        of_agents = [one for one in await self.pods() if one["metadata"]["name"].startswith("gpusharing-agent")]
        return next(one for one in of_agents if one["spec"].get("nodeName") == node)
