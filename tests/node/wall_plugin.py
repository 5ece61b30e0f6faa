"""A DRA driver of GPUs with memory walls: our service for the kubelet and our walls, and only what a test needs of the
rest. Which wall a claim gets is told by its name."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.samples import prepared_claim, prepared_device
from gpusharing import sim
from gpusharing.agent.cdi import our_device
from gpusharing.agent.cdi_specs import MEMORY_LIMITS, CdiSpecs, Hook, nvidia_device
from gpusharing.agent.dra.server import PluginServer
from gpusharing.agent.dra.service import DraService
from gpusharing.agent.prepare import ClaimRef
from gpusharing.agent.records import PreparedClaim
from gpusharing.agent.walls.directories import WallDirectories
from gpusharing.agent.walls.wall import Enforcement, Wall, cdi_hook
from harness.cluster import Cluster
from harness.node import Node

DRIVER = "walls.example.com"


@dataclass(frozen=True)
class Wanted:
    """For a claim, on the GPUs in their order."""

    limits_mib: tuple[int, ...]
    enforcement: Enforcement = Enforcement.REQUIRED
    nvidia_hook: Path | None = None
    """Instead of the one that the spec names."""


class WallPlugin:
    def __init__(self, node: Node, gpus: sim.SimNode, program: Path, wanted: Mapping[str, Wanted]) -> None:
        self._node = node
        self._uuids = [gpu.uuid for gpu in gpus.gpus()]
        self._program = program
        self._wanted = wanted
        self._specs = CdiSpecs(node.cdi_dirs)
        self.walls = WallDirectories(node.directory / "walls")
        self.uids: dict[str, str] = {}

    async def prepare(self, claim: ClaimRef) -> PreparedClaim:
        self.uids[claim.name] = claim.uid
        wanted = self._wanted[claim.name]
        devices = []
        for index, limit in enumerate(wanted.limits_mib):
            uuid = self._uuids[index]
            wall = Wall(
                claim=f"{claim.namespace}/{claim.name}",
                uuid=uuid,
                limit_mib=limit,
                enforcement=wanted.enforcement,
                nvidia_hook=self._hook(uuid, wanted),
            )
            hook = cdi_hook(self._program, self.walls.write(claim.uid, index, wall))
            devices.append((f"{claim.uid}-{index}", hook))
        self._write_spec(claim.uid, dict(devices))
        prepared = (
            prepared_device(f"gpu-{index}", uuid=self._uuids[index], request=f"gpu-{index}").model_copy(
                update={
                    "pool": self._node.name,
                    "cdi_devices": (nvidia_device(self._uuids[index]), our_device(claim.uid, index)),
                }
            )
            for index in range(len(devices))
        )
        return prepared_claim(claim.name, *prepared)

    async def unprepare(self, claim: ClaimRef) -> None:
        self._spec(claim.uid).unlink(missing_ok=True)
        self.walls.delete(claim.uid)

    def _hook(self, uuid: str, wanted: Wanted) -> Hook:
        hook = self._specs.hook(nvidia_device(uuid), MEMORY_LIMITS)
        assert hook is not None
        return Hook(str(wanted.nvidia_hook), hook.args, hook.env) if wanted.nvidia_hook else hook

    def _write_spec(self, uid: str, hooks: dict[str, dict[str, Any]]) -> None:
        devices = [{"name": name, "containerEdits": {"hooks": [hook]}} for name, hook in hooks.items()]
        path = self._spec(uid)
        path.with_suffix(".new").write_text(
            json.dumps({"cdiVersion": "0.5.0", "kind": "gpusharing.dev/claim", "devices": devices})
        )
        path.with_suffix(".new").rename(path)

    def _spec(self, uid: str) -> Path:
        return self._node.cdi_dirs[1] / f"gpusharing.dev-claim_{uid}.json"


@asynccontextmanager
async def serving(cluster: Cluster, plugin: WallPlugin) -> AsyncIterator[None]:
    """To kubelet and scheduler. Devices may be allocated to any number of claims: the walls are what is tested."""
    node = cluster.node
    async with AsyncExitStack() as stack:
        server = PluginServer(
            DraService(plugin.prepare, plugin.unprepare), kubelet_root=node.kubelet_root, driver=DRIVER
        )
        await stack.enter_async_context(server)
        await cluster.kubectl("apply", "--filename=-", stdin=json.dumps(await _objects(cluster)))
        yield


async def _objects(cluster: Cluster) -> dict[str, Any]:
    name = cluster.node.name
    uid = await cluster.kubectl("get", "node", name, "--output=jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    resource_slice = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "walls", "ownerReferences": [owner]},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{index}", "allowMultipleAllocations": True} for index in range(2)],
        },
    }
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    }
    return {"apiVersion": "v1", "kind": "List", "items": [resource_slice, device_class]}
