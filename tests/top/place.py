"""A cluster in which two namespaces share GPUs, as objects of a real API server behind which there is nothing."""

import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from agent.on_cluster import RESOURCE, SHARINGS, Admin
from gpusharing.snapshots.world import World
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from planning.fleets import Fleet, mps, policy, time_slicing

ROOT: Final = Path(__file__).parents[2]
NAMESPACES: Final = ("ml", "vision")
_OFFERS: Final = {"exclusive": {}, **time_slicing(4), **mps(8), "mig": {"profiles": ["1g.10gb", "3g.40gb"]}}


def shared_fleet() -> Fleet:
    """Of two nodes with four GPUs, each mode is in use on one, and one GPU has clients of both namespaces."""
    fleet = Fleet(nodes=2, gpus=4, policies=[policy("all", offers=_OFFERS)])
    fleet.namespaces = {name: {} for name in NAMESPACES}
    fleet.hold("gpu-0-timeslicing", namespace="ml", name="train-0", consumed={"shares": "2", "memory": "0"})
    fleet.hold("gpu-0-timeslicing", namespace="vision", name="camera-0")
    fleet.hold("gpu-1-mps", namespace="vision", name="camera-1", consumed=_MPS)
    fleet.hold("gpu-2-mig-3g40gb-9-0", namespace="ml", name="rank-0")
    fleet.hold("gpu-2-mig-1g10gb-19-6", namespace="vision", name="camera-2")
    fleet.hold("gpu-3", namespace="vision", name="camera-3")
    fleet.wait("gpu.nvidia.com", namespace="ml", name="wide", count=5)
    return fleet


_MPS: Final = {"shares": "1", "memory": "20Gi", "threads": "25"}


@dataclass
class Place:
    control_plane: ControlPlane
    admin: Admin

    async def fill(self, world: World) -> None:
        """What refers to claims names them by the uids that they get."""
        for name in NAMESPACES:
            await self.admin.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            account = {"metadata": {"name": "default"}}
            await self.admin.call("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
        uids = {one["metadata"]["uid"]: await self.add_claim(one) for one in world.claims}
        for one in world.pods:
            await self._add_pod(one)
        for sharing in world.node_sharings:
            text = json.dumps(sharing)
            for before, uid in uids.items():
                text = text.replace(f'"{before}"', f'"{uid}"')
            await self._add_sharing(json.loads(text))
        for one in world.nodes:
            await self.admin.call("POST", "/api/v1/nodes", {"metadata": {"name": one["metadata"]["name"]}})
        for one in world.slices:
            await self.admin.call("POST", f"{RESOURCE}/resourceslices", one)
        await self.control_plane.kubectl("apply", "--filename", ROOT / "manifests/base/deviceclasses.yaml")

    async def add_claim(self, claim: Any) -> str:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        path = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        made = await self.admin.call("POST", path, {"metadata": {"name": name}, "spec": claim["spec"]})
        if status := claim.get("status"):
            # Each share is told apart by a UUID.
            text = re.sub(r'"share-[^"]+"', lambda one: f'"{uuid5(NAMESPACE_OID, one[0])}"', json.dumps(status))
            await self.admin.merge(f"{path}/{name}/status", {"status": json.loads(text)})
        return str(made["metadata"]["uid"])

    async def _add_pod(self, pod: Any) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
        body = {"metadata": {"name": metadata["name"]}, "spec": spec | {"containers": [container]}}
        await self.admin.call("POST", f"/api/v1/namespaces/{metadata['namespace']}/pods", body)

    async def _add_sharing(self, sharing: Any) -> None:
        name = sharing["metadata"]["name"]
        body = {**sharing, "metadata": {"name": name}}
        identity = {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "NodeSharing"}
        await self.admin.call("POST", SHARINGS, identity | body)
        await self.admin.merge(f"{SHARINGS}/{name}/status", {"status": sharing["status"]})


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    async with ControlPlane() as control_plane, Admin(control_plane) as admin:
        await control_plane.kubectl("apply", "--kustomize", ROOT / "crds")
        await control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all")

        async def has_rules() -> None:
            role = await admin.call("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view")
            assert any("pods" in rule.get("resources", ()) for rule in role.get("rules") or ())

        await eventually(has_rules)
        # Nobody is to free the devices of claims that no kubelet knows, and nobody to schedule pods.
        for component in (control_plane.scheduler, control_plane.controller_manager):
            os.kill(component.pid, signal.SIGSTOP)
        yield Place(control_plane, admin)
