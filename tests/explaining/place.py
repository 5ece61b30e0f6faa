"""A place of its own for each case, in a cluster with the operator: a namespace, nodes and policies of the case's name.

The test plays agents and kubelets: what they report is written into a status, as they would write it.
"""

import io
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent.on_cluster import Admin, node_selector
from controller.bed import Everybody, Operator, everybody, install
from explaining.bed import DRIVER, Json, request
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.cli.main import main
from gpusharing.snapshots.world import CLAIMS, NAMESPACES, NODES, PODS, POLICIES, Resource
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.ready_nodes import UNTAINTED, ready_node

GROUPS: Final = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
SHARE: Final = "gpu-0-timeslicing"


class Found(dict[str, Any]):
    """What a command has printed as JSON."""

    def sentences(self, code: str) -> list[str]:
        return [one["message"] for one in self["findings"] if one["code"] == code]


@dataclass(frozen=True)
class Cluster:
    control_plane: ControlPlane
    admin: Admin
    they: Everybody
    operator: Operator

    @contextmanager
    def stopped_operator(self) -> Iterator[None]:
        os.kill(self.operator.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.operator.pid, signal.SIGCONT)


@asynccontextmanager
async def cluster_with_operator() -> AsyncIterator[Cluster]:
    plane = ControlPlane(feature_gates=GROUPS, runtime_config="scheduling.k8s.io/v1beta1=true")
    async with plane, Admin(plane) as admin, everybody(plane) as they:
        await install(plane)
        # It is stopped for a while, and still leads then.
        async with await Operator.of(plane, "--lease-duration=60") as operator:
            yield Cluster(plane, admin, they, operator)


@dataclass(frozen=True)
class Place:
    name: str
    """Of the namespace, the first node, and the policy."""
    cluster: Cluster
    directory: Path

    @property
    def they(self) -> Everybody:
        return self.cluster.they

    @property
    def selected(self) -> Json:
        """The part of a policy that selects the nodes of this case."""
        return {"matchLabels": {"case": self.name}}

    async def make_namespace(self) -> None:
        labels = {"case": self.name}
        await self.cluster.admin.call("POST", NAMESPACES.path(), {"metadata": {"name": self.name, "labels": labels}})

        async def takes_pods() -> None:
            path = f"/api/v1/namespaces/{self.name}/serviceaccounts/default"
            assert await self.cluster.admin.call("GET", path, absent=True)

        await eventually(takes_pods)

    async def add(self, resource: Resource, name: str, *, status: Json | None = None, **body: Any) -> Json:
        namespace = self.name if resource.is_namespaced else ""
        path = resource.path(namespace=namespace)
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **body}
        created: Json = await self.cluster.admin.call("POST", path, whole)
        if status is not None:
            created = await self.cluster.admin.merge(f"{path}/{name}/status", {"status": status})
        return created

    async def add_node(self, name: str = "", *, report: NodeSharingStatus | None = None, gpus: int = 1) -> None:
        """With an agent that has reported."""
        await self.they.make_node(name or self.name, gpus=gpus, labels={"case": self.name}, report=report)

    async def add_schedulable_node(self) -> None:
        """Without an agent."""
        await self.add(NODES, self.name, status=ready_node(self.name)["status"])
        await self.cluster.admin.merge(NODES.path(name=self.name), UNTAINTED)

    async def add_policy(self, name: str = "", **spec: Any) -> None:
        """For the nodes of this case, unless others are named."""
        await self.they.apply_policy(name or self.name, **{"nodes": self.selected, **spec})

    async def add_claim(
        self, name: str, *requests: Json, node: str = "", device: str = "", since: str = "", **devices: Any
    ) -> Json:
        """`device`: which the scheduler has given to it. `since`: a time."""
        spec = {"devices": {"requests": list(requests), **devices}}
        status = None
        if device:
            result: Json = {"request": "gpu", "driver": DRIVER, "pool": node or self.name, "device": device}
            if device.endswith("timeslicing"):
                share = {"shareID": "11111111-2222-4333-8444-555555555555", "consumedCapacity": {"shares": "1"}}
                result |= share
            given: Json = {"results": [result]}
            if config := devices.get("config"):
                given["config"] = [{"source": "FromClaim", **one} for one in config]
            allocation: Json = {"devices": given, "nodeSelector": node_selector(node or self.name)}
            if since:
                allocation["allocationTimestamp"] = since
            status = {"allocation": allocation}
        return await self.add(CLAIMS, name, spec=spec, status=status)

    async def add_pod(self, name: str, claim: str = "", **spec: Any) -> Json:
        entries = [{"name": "gpu", "resourceClaimName": claim}] if claim else []
        container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}] if claim else []}}
        return await self.add(PODS, name, spec={"containers": [container], "resourceClaims": entries, **spec})

    async def hold(self, *, node: str = "", **config: Any) -> None:
        """Claim `mine` has a share of the first GPU, and its pod is bound."""
        asked = request("timeslicing.gpu.nvidia.com")
        await self.add_claim("mine", asked, node=node, device=SHARE, **config)
        await self.add_pod("asker", "mine", nodeName=node or self.name)

    async def until_ready(self, type_: str, reason: str, name: str = "") -> None:
        async def says_so() -> None:
            assert await self.they.reason(name or self.name, type_) == reason

        await eventually(says_so)

    async def until_refused(self, said: str) -> None:
        """By the scheduler."""

        async def is_refused() -> None:
            pod = await self.cluster.admin.call("GET", f"{PODS.path(namespace=self.name)}/asker")
            messages = [one.get("message", "") for one in pod["status"].get("conditions", ())]
            assert any(said in one for one in messages), messages

        await eventually(is_refused)

    def write(self, name: str = "", **spec: Any) -> None:
        """The policy as it is to become."""
        body = {"apiVersion": POLICIES.api_version, "kind": POLICIES.kind, "metadata": {"name": name or self.name}}
        text = json.dumps({**body, "spec": {"nodes": self.selected, **spec}})
        (self.directory / "wanted.yaml").write_text(text)

    def run(self, command: str, *, kubeconfig: Path | None = None) -> tuple[int, Found]:
        """In this process: a program would take longer to start than to answer."""
        arguments = command.format(n=self.name, file=self.directory / "wanted.yaml").split()
        out = io.StringIO()
        given = str(kubeconfig or self.cluster.control_plane.kubeconfig)
        status: object = None
        with redirect_stdout(out):
            try:
                main([*arguments, "-o", "json", "--kubeconfig", given])
            except SystemExit as ended:
                status = ended.code
        text = out.getvalue()
        assert text, f"{command}: nothing was printed, and {status} is the exit code"
        return int(str(status or 0)), Found(json.loads(text))
