"""A cluster without kubelets, in which a test brings a finding about and asks `gpusharing explain` for it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from agent.on_cluster import RESOURCE, Admin, node_selector
from building.boards import board
from gpusharing.api import names
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import (
    ExclusiveOffer,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingMemory,
    TimeSlicingOffer,
)
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.devices import full_menu
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.ready_nodes import UNTAINTED, ready_node

Json = dict[str, Any]

NODES: Final = ("n0", "n1")
DRIVER: Final = names.DRIVER
FOREIGN: Final = "dra.example.com"
ALL_MODES: Final = Offers(
    exclusive=ExclusiveOffer(),
    time_slicing=TimeSlicingOffer(max_clients=4, memory=TimeSlicingMemory(default="20Gi", min="1Gi")),
    mps=MpsOffer(max_clients=8, memory=MpsMemory(default="8Gi", max="20Gi"), threads=MpsThreads(default=25, min=5)),
    mig=MigOffer(profiles=("1g.10gb", "3g.40gb")),
)
PODS: Final = "/api/v1/namespaces/default/pods"
INSTALLED_IN: Final = "gpusharing-system"
DAEMON_SETS: Final = f"/apis/apps/v1/namespaces/{INSTALLED_IN}/daemonsets"
CLAIMS: Final = f"{RESOURCE}/namespaces/default/resourceclaims"
SLICES: Final = f"{RESOURCE}/resourceslices"
CLASSES: Final = f"{RESOURCE}/deviceclasses"
_AT_ONCE: Final = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


def our_slices(node: str, *, gpus: int = 1, offers: Offers = ALL_MODES, policy: str | None = None) -> list[Json]:
    """As an agent publishes idle GPUs with the full menu. `policy`: for whose tenants they are reserved."""
    shown = []
    for slot in range(gpus):
        offered = OfferedGpu(
            gpu=board("H100-80GB", slot),
            offers=offers,
            policy=PolicyReference(name=policy or "all-modes", generation=1),
            configured=True,
            restricted=policy is not None,
        )
        shown.append(PublishedGpu(offered, full_menu(offered)))
    return slice_specs(shown, node=node, pool=names.pool(node, restricted_to=policy), driver=DRIVER, generation=1)


def foreign_slice(node: str, *devices: Json, count: int = 1, **spec: Any) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    return {"driver": FOREIGN, "nodeName": node, "pool": pool, "devices": list(devices), **spec}


def device(name: str, **attributes: str) -> Json:
    return {"name": name, "attributes": {key: {"string": value} for key, value in attributes.items()}}


def request(class_: str, *, name: str = "gpu", selector: str = "", **exactly: Any) -> Json:
    selectors = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    return {"name": name, "exactly": {"deviceClassName": class_, **selectors, **exactly}}


class Explained(NamedTuple):
    exit: int
    value: Json
    text: str

    @property
    def codes(self) -> list[str]:
        return [one["code"] for one in self.value["findings"]]

    def sentence(self, code: str) -> str:
        return next(str(one["message"]) for one in self.value["findings"] if one["code"] == code)

    def remedy(self, code: str) -> str:
        return next(str(one.get("remedy", "")) for one in self.value["findings"] if one["code"] == code)


class Bed:
    def __init__(self, control_plane: ControlPlane, admin: Admin) -> None:
        self.control_plane = control_plane
        self.admin = admin

    async def publish(self, *specs: Json) -> None:
        for number, spec in enumerate(specs):
            pool = spec["pool"]["name"].replace("/", "-")
            name = f"{number:02d}-{pool}-{spec['driver']}"
            await self.admin.call("POST", SLICES, {"metadata": {"name": name}, "spec": spec})

    async def add_class(self, name: str, expression: str, **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}], **spec}}
        await self.admin.call("POST", CLASSES, body)

    async def add_claim(self, name: str, *requests: Json, **devices: Any) -> Json:
        spec = {"devices": {"requests": list(requests), **devices}}
        created: Json = await self.admin.call("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
        return created

    async def add_pod(self, name: str, *claims: str, resources: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Each claim has the name of an existing one."""
        entries = [{"name": f"c{index}", "resourceClaimName": claim} for index, claim in enumerate(claims)]
        refs = [{"name": entry["name"]} for entry in entries]
        container = {"name": "main", "image": "none", "resources": {"claims": refs, "requests": resources or {}}}
        if resources and any("/" in name for name in resources):
            container["resources"]["limits"] = resources  # type: ignore[index]
        body = {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": entries, **spec}}
        await self.admin.call("POST", PODS, body)

    async def hold(
        self, name: str, class_: str, node: str, device: str, *, share: Mapping[str, str] | None = None
    ) -> None:
        """A claim that has this device, with a pod that uses it."""
        await self.add_claim(name, request(class_))
        result: Json = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
        if share is not None:
            result |= {"shareID": "11111111-2222-4333-8444-555555555555", "consumedCapacity": dict(share)}
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": node_selector(node),
            "allocationTimestamp": "2026-11-20T00:00:00Z",
        }
        await self.admin.merge(f"{CLAIMS}/{name}/status", {"status": {"allocation": allocation}})
        await self.add_pod(f"{name}-pod", name)
        await self.until_bound(f"{name}-pod")

    async def until_bound(self, name: str) -> None:
        async def is_bound() -> None:
            assert (await self.admin.call("GET", f"{PODS}/{name}"))["spec"].get("nodeName")

        await eventually(is_bound)

    async def until_refused(self, name: str, said: str = "") -> str:
        """What the scheduler says: this, once it has seen all that was made before."""
        message = ""

        async def is_refused() -> None:
            nonlocal message
            pod = await self.admin.call("GET", f"{PODS}/{name}")
            conditions = {one["type"]: one for one in pod.get("status", {}).get("conditions", ())}
            assert conditions.get("PodScheduled", {}).get("message")
            message = conditions["PodScheduled"]["message"]
            assert said in message
            assert not pod["spec"].get("nodeName")

        await eventually(is_refused)
        return message

    async def explain(self, *arguments: str, columns: int = 80) -> Explained:
        command = [sys.executable, "-m", "gpusharing", "explain", *arguments]
        command += ["--kubeconfig", str(self.control_plane.kubeconfig)]
        environment = {**os.environ, "COLUMNS": str(columns)}
        as_json, as_text = await asyncio.gather(_run([*command, "-o", "json"], environment), _run(command, environment))
        if as_json[0] in {1, 2}:
            raise AssertionError(as_json[2] or as_json[1])
        return Explained(as_json[0], json.loads(as_json[1]), as_text[1])

    @asynccontextmanager
    async def stopped_scheduler(self) -> AsyncIterator[None]:
        pid = self.control_plane.scheduler.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    async def clean(self) -> None:
        await self.admin.call("DELETE", PODS, _AT_ONCE)
        for path in (CLAIMS, SLICES, CLASSES):
            await self.admin.call("DELETE", path)

        async def is_empty() -> None:
            for path in (PODS, CLAIMS, SLICES, CLASSES):
                assert not (await self.admin.call("GET", path))["items"]

        await eventually(is_empty)
        await self.admin.call("DELETE", "/apis/gpusharing.dev/v1alpha1/sharingpolicies")
        await self.admin.call("DELETE", "/apis/gpusharing.dev/v1alpha1/nodesharings")
        await self.admin.call("DELETE", DAEMON_SETS)
        await self.admin.call("DELETE", f"{RESOURCE}/devicetaintrules")
        await self.admin.call("DELETE", f"{RESOURCE}/namespaces/default/resourceclaimtemplates")

    async def prepare_nodes(self) -> None:
        for name in NODES:
            await self.admin.call("POST", "/api/v1/nodes", ready_node(name))
            await self.admin.merge(f"/api/v1/nodes/{name}", UNTAINTED)
            await self.admin.merge(f"/api/v1/nodes/{name}/status", {"status": ready_node(name)["status"]})


async def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()
