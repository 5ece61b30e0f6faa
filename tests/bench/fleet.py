"""100 nodes with GPUs as the scheduler knows them: objects of an API server, behind which there is nothing."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from agent.on_cluster import RESOURCE, Admin, node_selector
from bench.layouts import DRIVER, IN_USE, NODES, SHARE, Layout
from gpusharing.core.publishing.slice_updates import slice_name
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import Api, open_session
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.gpu_cluster import MANIFESTS
from harness.ready_nodes import UNTAINTED, ready_node
from harness.workloads import PODS

_CLAIMS: Final = f"{RESOURCE}/namespaces/default/resourceclaims"
_PODS: Final = "/api/v1/namespaces/default/pods"
_MEASURED: Final = {"measured": "yes"}
_SELECTED: Final = "labelSelector=measured%3Dyes"
_AT_ONCE: Final = 12


class Wish(NamedTuple):
    """What a pod asks for."""

    our_class: str
    type: str
    profile: str | None = None

    def request(self, *, ours: bool) -> dict[str, Any]:
        exactly: dict[str, Any] = {"deviceClassName": self.our_class if ours else f"plain-{self.type}"}
        if self.profile:
            expression = f'device.attributes["{DRIVER}"].profile == "{self.profile}"'
            exactly["selectors"] = [{"cel": {"expression": expression}}]
        return {"name": "gpu", "exactly": exactly}


A_WHOLE: Final = Wish("gpu.nvidia.com", "gpu")
A_SHARE: Final = Wish("timeslicing.gpu.nvidia.com", "shared")
A_PART: Final = Wish("mig.nvidia.com", "mig", "1g.10gb")


@dataclass(frozen=True)
class Speed:
    pods_per_second: float
    cpu_per_pod: float
    """Seconds that the scheduler computed for each."""


class Fleet:
    """A control plane of its own, so that many can be measured by turns."""

    def __init__(self, layout: Layout, *, held: int) -> None:
        self.layout = layout
        self._held = held
        self._control_plane = ControlPlane()
        self._numbers = iter(range(1_000_000))
        self._stack = AsyncExitStack()
        self._admin: Admin
        self._api: Api

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._control_plane)
            self._admin = await stack.enter_async_context(Admin(self._control_plane))
            credentials = await client_credentials.load(self._control_plane.kubeconfig)
            session = await stack.enter_async_context(open_session(credentials))
            self._api = Api(session, credentials.server, user_agent="gpusharing-bench")
            await self._control_plane.kubectl("apply", "--filename", str(MANIFESTS / "deviceclasses.yaml"))
            await _all(self._admin.call("POST", f"{RESOURCE}/deviceclasses", _plain(type_)) for type_ in _TYPES)
            await _all(self._node(name) for name in NODES)
            await _all(self._hold(number) for number in range(self._held))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _node(self, name: str) -> None:
        await self._admin.call("POST", "/api/v1/nodes", ready_node(name))
        await self._admin.merge(f"/api/v1/nodes/{name}", UNTAINTED)
        for index, spec in enumerate(self.layout.slices(name)):
            metadata = {"name": slice_name(index, pool=name, driver=DRIVER)}
            await self._admin.call("POST", f"{RESOURCE}/resourceslices", {"metadata": metadata, "spec": spec})

    async def _hold(self, number: int) -> None:
        """An allocated claim, the first of a GPU or one more share of it. Nobody asks whether a pod is behind it."""
        node, slot = NODES[number % len(NODES)], IN_USE[number // len(NODES) % len(IN_USE)]
        result: dict[str, Any] = {
            "request": "gpu",
            "driver": DRIVER,
            "pool": node,
            "device": self.layout.held.format(slot),
        }
        if self.layout.held == SHARE:
            result |= {"shareID": str(uuid.uuid4()), "consumedCapacity": {"shares": "1", "memory": "0"}}
        allocation = {"devices": {"results": [result]}, "nodeSelector": node_selector(node)}
        path = await self._claim(f"held-{number}", A_SHARE if self.layout.held == SHARE else A_WHOLE)
        await self._admin.merge(f"{path}/status", {"status": {"allocation": allocation}})

    async def _claim(self, name: str, wish: Wish, **labels: str) -> str:
        request = wish.request(ours=self.layout.ours)
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"devices": {"requests": [request]}}}
        await self._admin.call("POST", _CLAIMS, body)
        return f"{_CLAIMS}/{name}"

    async def _pod(self, wish: Wish) -> None:
        name = f"measured-{next(self._numbers)}"
        await self._claim(name, wish, **_MEASURED)
        container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}], "containers": [container]}
        body = {"metadata": {"name": name, "labels": _MEASURED}, "spec": spec}
        await self._admin.call("POST", _PODS, body)

    async def measure(self, wish: Wish, *, pods: int) -> Speed:
        """Pods that wait when the scheduler begins. While they are made it stands still: it has the cores to itself."""
        scheduler = self._control_plane.scheduler.pid
        os.kill(scheduler, signal.SIGSTOP)
        try:
            await _all(self._pod(wish) for _ in range(pods))
            await asyncio.sleep(0.5)
        finally:
            os.kill(scheduler, signal.SIGCONT)
        before = _cpu_seconds(scheduler)
        bound = await self._when_bound(pods)
        speed = Speed((pods - 1) / (bound[-1] - bound[0]), (_cpu_seconds(scheduler) - before) / pods)
        await self._clear()
        return speed

    async def _when_bound(self, pods: int) -> list[float]:
        moments: dict[str, float] = {}
        try:
            async with asyncio.timeout(600):
                # From "0" on: with those that are there.
                async for _, pod in self._api.watch(PODS, "0"):
                    if pod["spec"].get("nodeName"):
                        moments.setdefault(pod["metadata"]["uid"], time.perf_counter())
                    if len(moments) == pods:
                        break
        except TimeoutError as error:
            log = self._control_plane.scheduler.last_lines()
            raise RuntimeError(f"{self.layout.name}: only {len(moments)} of {pods} pods are bound\n{log}") from error
        return list(moments.values())

    async def _clear(self) -> None:
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        await self._admin.call("DELETE", f"{_PODS}?{_SELECTED}", now)
        await self._admin.call("DELETE", f"{_CLAIMS}?{_SELECTED}")

        async def gone() -> None:
            assert not (await self._admin.call("GET", f"{_CLAIMS}?{_SELECTED}&limit=1"))["items"]

        await eventually(gone, within=120)


_TYPES: Final = ("gpu", "shared", "mig")


def _plain(type_: str) -> dict[str, Any]:
    """As NVIDIA's classes are: they know nothing of what closes or is restricted."""
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{type_}"'
    return {"metadata": {"name": f"plain-{type_}"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


async def _all(work: Iterable[Awaitable[Any]]) -> None:
    """A few at a time, in order."""
    waiting = iter(work)

    async def worker() -> None:
        for one in waiting:
            await one

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
