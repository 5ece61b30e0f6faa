"""A thousand nodes with agents and ten thousand claims: objects of a real API server, behind which there is nothing."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from agent.on_cluster import RESOURCE, Admin, node_selector
from building import DRIVER, gpu_status
from controller.bed import install
from gpusharing.api import names
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.kube.kinds import NODE_SHARINGS
from harness.controlplane import ControlPlane

GPUS: Final = 8
_AT_ONCE: Final = 24
_CLAIMS: Final = f"{RESOURCE}/namespaces/default/resourceclaims"


TEAMS: Final = 10


def node_name(number: int) -> str:
    return f"node-{number:04}"


def team_name(number: int) -> str:
    """Whose node it is, whose policy, and whose claim."""
    return f"team-{number % TEAMS}"


def claim_path(number: int) -> str:
    return f"{_CLAIMS}/claim-{number:05}"


@asynccontextmanager
async def control_plane_alone() -> AsyncIterator[tuple[ControlPlane, Admin]]:
    """Nobody is to free the devices of claims that no pod uses."""
    async with ControlPlane() as control_plane, Admin(control_plane) as admin:
        await install(control_plane)
        for component in (control_plane.scheduler, control_plane.controller_manager):
            os.kill(component.pid, signal.SIGSTOP)
        yield control_plane, admin


async def all_at_once(work: Iterable[Awaitable[object]]) -> None:
    """As many at a time as an API server answers at once."""
    waiting = iter(work)

    async def worker() -> None:
        for one in waiting:
            await one

    async with asyncio.TaskGroup() as workers:
        for _ in range(_AT_ONCE):
            workers.create_task(worker())


class Crowd:
    """Each node has been reported by its agent; claim i holds a share of the node i modulo their number."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self.nodes = 0
        self.claims = 0
        self._is_for_teams = False

    async def grow(self, *, nodes: int, claims: int) -> None:
        await all_at_once(self._node(number) for number in range(self.nodes, nodes))
        self.nodes = nodes
        await all_at_once(self._claim(number) for number in range(self.claims, claims))
        self.claims = claims

    async def _node(self, number: int) -> None:
        name, labels = node_name(number), _LABELS | {"team": team_name(number)}
        node = await self._admin.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        path = NODE_SHARINGS.path()
        body = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": {}}
        identity = {"apiVersion": NODE_SHARINGS.api_version, "kind": NODE_SHARINGS.kind}
        await self._admin.call("POST", path, identity | body)
        await self._report(name)

    async def _report(self, name: str, *, in_force: PolicyReference | None = None, generation: int = 1) -> None:
        gpus = tuple(gpu_status(slot, node=name, in_force=in_force) for slot in range(GPUS))
        status = NodeSharingStatus(observed_generation=generation, gpus=gpus).to_json()
        await self._admin.merge(f"{NODE_SHARINGS.path()}/{name}/status", {"status": status})

    async def become_of_teams(self) -> None:
        """Each node belongs to one of the teams, whose policy is in force there; as their agents would report it. The
        claims begin anew, on devices that are reserved."""
        generations = {sharing.metadata.name: sharing.metadata.generation for sharing in await self.sharings()}

        async def report(number: int) -> None:
            name = node_name(number)
            in_force = PolicyReference(name=team_name(number), generation=1)
            await self._report(name, in_force=in_force, generation=generations[name])

        await self.each(report, range(self.nodes))
        self._is_for_teams = True

    async def _claim(self, number: int) -> None:
        request = {"name": "gpu", "exactly": {"deviceClassName": "timeslicing.gpu.nvidia.com"}}
        path = claim_path(number)
        labels = {"app": "inference", "team": f"team-{number % 20}"}
        body = {
            "metadata": {"name": path.rpartition("/")[2], "labels": labels},
            "spec": {"devices": {"requests": [request]}},
        }
        await self._admin.call("POST", _CLAIMS, body)
        await self.allocate(number)

    async def allocate(self, number: int) -> None:
        """As the scheduler does it."""
        node = node_name(number % self.nodes)
        result = {
            "request": "gpu",
            "driver": DRIVER,
            "pool": names.pool(node, restricted_to=team_name(number) if self._is_for_teams else None),
            "device": names.time_sliced_device(number // self.nodes % GPUS),
            "shareID": f"00000000-0000-4000-8000-{number:012d}",
            "consumedCapacity": {"shares": "1", "memory": "0"},
        }
        allocation = {"devices": {"results": [result]}, "nodeSelector": node_selector(node)}
        await self._admin.merge(f"{claim_path(number)}/status", {"status": {"allocation": allocation}})

    async def release(self, number: int) -> None:
        await self._admin.merge(f"{claim_path(number)}/status", {"status": {"allocation": None}})

    async def each(self, do: Callable[[int], Awaitable[object]], numbers: Iterable[int]) -> None:
        await all_at_once(do(number) for number in numbers)

    async def mark(self, name: str) -> None:
        """A claim by which a reader of events knows where it is."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "timeslicing.gpu.nvidia.com"}}
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        await self._admin.call("POST", _CLAIMS, body)

    async def unmark(self) -> None:
        for name in ("begin", "end"):
            await self._admin.call("DELETE", f"{_CLAIMS}/{name}")

    async def sharings(self) -> list[NodeSharing]:
        answer: Any = await self._admin.call("GET", NODE_SHARINGS.path())
        return [NODE_SHARINGS.from_json(item) for item in answer["items"]]


_LABELS: Final = {
    "pool": "inference",
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "topology.kubernetes.io/zone": "zone-a",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
}
