"""Clusters side by side in one: each has nodes of its own, and pods and slices that concern no others."""

import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from agent.on_cluster import RESOURCE, Admin
from allocating import foreign_slices, pods
from allocating.following import Following
from allocating.oracle_process import NEWEST, SECONDS_PER_NODE
from allocating.worlds import Json, World, world
from harness.controlplane import ControlPlane
from harness.ready_nodes import UNTAINTED, ready_node

LABELS: Final[tuple[dict[str, str], ...]] = ({"zone": "a", "rank": "1"}, {"zone": "b", "rank": "2"}, {})
RULE: Final[Json] = {
    "deviceSelector": {"driver": foreign_slices.DRIVERS[0], "device": "dev-1"},
    "taint": {"key": foreign_slices.TAINTS[0], "effect": "NoSchedule"},
}

CLAIMS: Final = f"{RESOURCE}/namespaces/default/resourceclaims"
PODS: Final = "/api/v1/namespaces/default/pods"
SLICES: Final = f"{RESOURCE}/resourceslices"
AT_ONCE: Final = {"gracePeriodSeconds": 0}
_MARKER: Final = "marker.example.com"
_LANE: Final = "lane"

numbers: Final = itertools.count(1)
"""For names that nobody has had before."""


class Bed:
    """A control plane with kube-scheduler, and what all lanes share."""

    def __init__(self, admin: Admin, minor: int, pods_: Following, claims: Following) -> None:
        self.admin = admin
        self.minor = minor
        self.pods = pods_
        self.claims = claims

    @property
    def rules(self) -> Sequence[Json]:
        """The specs of its DeviceTaintRules, which are off by default before 1.37."""
        return [RULE] if self.minor >= NEWEST else []


@asynccontextmanager
async def bed(minor: int = NEWEST) -> AsyncIterator[Bed]:
    """An older version is emulated: then kube-scheduler allocates as the newest one does, without its new features."""
    emulated = None if minor == NEWEST else f"1.{minor}"
    async with (
        ControlPlane(emulated_version=emulated) as control_plane,
        Admin(control_plane) as admin,
        Following(admin, PODS) as of_pods,
        Following(admin, CLAIMS) as of_claims,
    ):
        there = Bed(admin, minor, of_pods, of_claims)
        await _give_up_soon(control_plane)
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await admin.merge("/api/v1/namespaces/default", label)
        for rule in there.rules:
            await admin.call("POST", f"{RESOURCE}/devicetaintrules", {"metadata": {"name": "rule"}, "spec": rule})
        expression = f'device.driver == "{_MARKER}"'
        marker = {"metadata": {"name": "marker"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
        for one in (*pods.CLASSES, marker):
            await admin.call("POST", f"{RESOURCE}/deviceclasses", one)
        yield there


async def _give_up_soon(control_plane: ControlPlane) -> None:
    """Some pods would take kube-scheduler for ever. It gives up on each after ten seconds by default, and meanwhile all
    others wait."""
    version = "kubescheduler.config.k8s.io/v1"
    limit = {"kind": "DynamicResourcesArgs", "apiVersion": version, "filterTimeout": f"{SECONDS_PER_NODE}s"}
    scheduler = control_plane.scheduler
    (kubeconfig,) = (one for one in scheduler.argv if one.startswith("--kubeconfig="))
    configuration = {
        "apiVersion": version,
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig.partition("=")[2], "qps": 2000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {"schedulerName": "default-scheduler", "pluginConfig": [{"name": "DynamicResources", "args": limit}]}
        ],
    }
    path = control_plane.directory / "scheduler.json"
    path.write_text(json.dumps(configuration))
    scheduler.argv.append(f"--config={path}")
    await scheduler.restart()


@dataclass(frozen=True)
class Lane:
    bed: Bed
    name: str
    nodes: Sequence[Json]
    is_alone: bool

    @classmethod
    async def made(cls, bed: Bed, name: str, *, is_alone: bool) -> "Lane":
        """`is_alone`: then slices may be for all nodes of the cluster."""
        nodes = []
        for number, labels in enumerate(LABELS):
            node = f"{name}n{number}"
            all_labels = {"kubernetes.io/hostname": node, _LANE: name, **labels}
            nodes.append({"metadata": {"name": node, "labels": all_labels}})
            await bed.admin.call("POST", "/api/v1/nodes", ready_node(node) | nodes[-1])
            await bed.admin.merge(f"/api/v1/nodes/{node}", UNTAINTED)
            await bed.admin.merge(f"/api/v1/nodes/{node}/status", {"status": ready_node(node)["status"]})
        return cls(bed, name, nodes, is_alone)

    def world(self, seed: int, number: int) -> World:
        there = world(seed, number, nodes=list(self.nodes))
        there.allocated.clear()
        for one in there.slices:
            devices = one["spec"].get("devices", [])
            # The API server takes no name twice in one slice.
            devices[:] = {device["name"]: device for device in devices}.values()
            for device in devices:
                # Nobody would ever fulfil them.
                device.pop("bindingConditions", None)
                device.pop("bindingFailureConditions", None)
                if self.bed.minor < NEWEST:
                    # Its ranges are in fractions, of which an older version knows nothing.
                    device.get("capacity", {}).pop("cores", None)
        there.slices[:] = there.slices if self.is_alone else [self._confined(one) for one in there.slices]
        return there

    def _confined(self, value: Json) -> Json:
        """To the nodes of this lane, in a pool of its own."""
        slice_: Json = json.loads(json.dumps(value))
        spec = slice_["spec"]
        if not any(spec["pool"]["name"].startswith(node["metadata"]["name"]) for node in self.nodes):
            spec["pool"]["name"] = f"{self.name}-{spec['pool']['name']}"
        here = {"key": _LANE, "operator": "In", "values": [self.name]}
        for place in (spec, *spec.get("devices", ())):
            if place.pop("allNodes", False):
                place["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": []}]}
            for term in place.get("nodeSelector", {}).get("nodeSelectorTerms", ()):
                term["matchExpressions"].append(here)
        return slice_

    def placing(self) -> Json:
        """What a pod says to run here."""
        terms = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node["metadata"]["name"]]}]}
            for node in self.nodes
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        return {"affinity": {"nodeAffinity": required}}

    async def publish(self, slices: list[Json]) -> None:
        """In place of all before. One slice comes last: a pod that gets its device shows that the scheduler knows them
        all."""
        admin = self.bed.admin
        await admin.call("DELETE", f"{SLICES}?labelSelector={_LANE}%3D{self.name}")
        labels = {_LANE: self.name}
        number = next(numbers)
        name = f"marker-{number}"
        slices.append({"metadata": {"name": name}, "spec": self._marker(name, number)})
        for one in slices:
            metadata = {"name": f"{self.name}-{one['metadata']['name']}", "labels": labels}
            await admin.call("POST", SLICES, {"metadata": metadata, "spec": one["spec"]})
        expression = f'device.attributes["{_MARKER}"].number == {number}'
        wanted = {"deviceClassName": "marker", "selectors": [{"cel": {"expression": expression}}]}
        devices = {"requests": [{"name": "marker", "exactly": wanted}]}
        claim = {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}
        pod = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "resourceClaims": [{"name": "c0", "resourceClaimName": name}],
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "c0"}]}}],
                **self.placing(),
            },
        }
        await admin.call("POST", CLAIMS, claim)
        await admin.call("POST", PODS, pod)
        await self.bed.pods.until(name, is_bound)
        await self.remove(name, [name])

    def _marker(self, pool: str, number: int) -> Json:
        return {
            "driver": _MARKER,
            "nodeName": self.nodes[0]["metadata"]["name"],
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "marker", "attributes": {"number": {"int": number}}}],
        }

    async def remove(self, pod: str, claims: Sequence[str]) -> None:
        await self.bed.admin.call("DELETE", f"{PODS}/{pod}", AT_ONCE)
        for name in claims:
            await self.bed.admin.call("DELETE", f"{CLAIMS}/{name}", absent=True)
        for name in claims:
            await self.bed.claims.until(name, is_gone)


def is_bound(pod: Mapping[str, Any] | None) -> bool:
    return bool(pod and pod["spec"].get("nodeName"))


def is_gone(value: Mapping[str, Any] | None) -> bool:
    return value is None
