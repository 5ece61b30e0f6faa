"""Somebody with kubectl, on a cluster with GPUs."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from gpusharing.api import names
from harness.cluster import Cluster
from harness.commands import CommandError
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.node import Node

SHARED: Final = "timeslicing.gpu.nvidia.com"
WHOLE: Final = "gpu.nvidia.com"


class AnyUser:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def state_directory(self, node: Node) -> Path:
        """The agent's."""
        return node.state_directory

    async def apply(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        await self.cluster.kubectl("apply", "--filename=-", stdin=json.dumps(listed))

    async def get(self, *arguments: str) -> Any:
        return await self.cluster.get(*arguments)

    async def delete(self, *arguments: str) -> None:
        await self.cluster.kubectl("delete", *arguments)

    async def wait(self, *arguments: str) -> None:
        """Where it fails, it says what is there instead."""
        try:
            await self.cluster.kubectl("wait", *arguments, "--timeout=60s")
        except CommandError as error:
            waited_for = [argument for argument in arguments if not argument.startswith("--for")]
            error.add_note(await self._what_is_there(waited_for))
            raise

    async def _what_is_there(self, waited_for: list[str]) -> str:
        try:
            described = await self.cluster.kubectl("describe", *waited_for)
            return described + await self.cluster.kubectl("get", "nodesharings", "--output=yaml")
        except CommandError as error:
            return str(error)

    async def shell(self, pod_name: str, command: str, container: str = "main-0") -> str:
        return await self.cluster.kubectl("exec", pod_name, f"--container={container}", "--", "sh", "-c", command)

    async def pods(self, phase: str, app: str = "test") -> list[dict[str, Any]]:
        return [item for item in await self._all_pods(app) if item["status"]["phase"] == phase]

    async def _all_pods(self, app: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.get("pods", f"--selector=app={app}"))["items"]
        return items

    async def devices(self) -> list[str]:
        """What the scheduler is offered, by the first of its names: what comes back within an hour has another one."""
        slices = (await self.get("resourceslices"))["items"]
        found = [device["name"] for item in slices for device in item["spec"].get("devices", [])]
        return sorted(names.at_revision(name, 0) for name in found)

    async def claim_of(self, pod_: dict[str, Any]) -> Any:
        name = pod_["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        return await self.get("resourceclaims", name)

    async def published(self, *devices: str) -> None:
        async def check() -> None:
            assert await self.devices() == sorted(devices)

        await eventually(check)

    async def running(self, count: int, *, pending: int = 0, app: str = "test") -> None:
        async def check() -> None:
            phases = Counter(item["status"]["phase"] for item in await self._all_pods(app))
            assert (phases["Running"], phases["Pending"]) == (count, pending)

        await eventually(check)

    async def nothing_prepared(self) -> None:
        """No CDI file, no state, and the GPUs as they were found."""
        node = self.cluster.node
        state = self.state_directory(node)

        async def check() -> None:
            left = [*node.cdi_dirs[1].iterdir(), *(state / "claims").iterdir(), *(state / "journal").iterdir()]
            assert left == []
            assert (await self.get("nodesharing", "node-1"))["status"]["claims"] == []

        await eventually(check)


class User(AnyUser):
    """Where operator and agent run beside the cluster."""

    cluster: GpuCluster

    def __init__(self, cluster: GpuCluster) -> None:
        super().__init__(cluster)

    def state_directory(self, node: Node) -> Path:
        return self.cluster.state_directory(node)
