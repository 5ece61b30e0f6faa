"""Real scheduler, operator and agents; the test is kubelet, user and bad weather."""

import asyncio
import contextlib
import itertools
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from agent.on_cluster import DRIVER, RESOURCE, Admin, Claim, GpuNode
from cluster.narrowing.allocations import CLIENTS, Allocations, events
from controller.bed import install
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import Api, open_session
from harness.eventually import eventually
from harness.gpu_cluster import CLOSING_GUARD, NAMESPACE
from harness.late_scheduler import LateControlPlane, SchedulerProxy
from harness.processes import Process
from harness.ready_nodes import UNTAINTED, ready_node
from harness.workloads import PODS, policy

_POLICY: Final = "shared"
_POLICIES: Final = "/apis/gpusharing.dev/v1alpha1/sharingpolicies"

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
_LEASE_OF_SECOND: Final = {
    "metadata": {"name": "apiserver-second", "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"}}
}

EXCLUSIVE: Final[dict[str, Any]] = {"exclusive": {}}
SHARED: Final[dict[str, Any]] = {"timeSlicing": {"maxClients": CLIENTS}}
EVERYTHING: Final[dict[str, Any]] = {
    **EXCLUSIVE,
    **SHARED,
    "mps": {"maxClients": CLIENTS, "memory": {"default": "8Gi"}, "threads": {"default": 25, "min": 5}},
    "mig": {"profiles": ["1g.10gb", "3g.40gb"]},
}


class Wish(NamedTuple):
    device_class: str
    profile: str | None = None
    admin: bool = False
    tolerates: bool = False
    """Everything, as monitoring agents do."""

    def request(self) -> dict[str, Any]:
        exactly: dict[str, Any] = {"deviceClassName": self.device_class}
        if self.profile:
            expression = f'device.attributes["{DRIVER}"].profile == "{self.profile}"'
            exactly["selectors"] = [{"cel": {"expression": expression}}]
        if self.admin:
            exactly["adminAccess"] = True
        if self.tolerates:
            exactly["tolerations"] = [{"operator": "Exists"}]
        return {"name": "gpu", "exactly": exactly}


WHOLE: Final = Wish("gpu.nvidia.com")
SHARE: Final = Wish("timeslicing.gpu.nvidia.com")
MPS: Final = Wish("mps.gpu.nvidia.com")
PART: Final = Wish("mig.nvidia.com", "1g.10gb")
HALF: Final = Wish("mig.nvidia.com", "3g.40gb")


@dataclass(frozen=True)
class Workload:
    """A pod and its claim, of the same name."""

    claim: Claim

    @property
    def name(self) -> str:
        return self.claim.name

    @property
    def pod(self) -> str:
        return f"/api/v1/namespaces/{self.claim.namespace}/pods/{self.name}"


class Bed:
    """A control plane with the operator; agents come and go with their nodes."""

    def __init__(
        self,
        *,
        taken_wait: float = 2,
        idle_wait: float = 3,
        emulated_version: str | None = None,
        with_second_apiserver: bool = False,
        closing_guard: bool = True,
    ) -> None:
        """Without the closing guard, closing devices wait for `idle_wait`."""
        self._closing_guard = closing_guard
        self.control_plane = LateControlPlane(
            emulated_version=emulated_version, with_second_apiserver=with_second_apiserver
        )
        self.admin = Admin(self.control_plane)
        self.allocations: Allocations
        self.bound: defaultdict[str, asyncio.Future[str]] = defaultdict(asyncio.Future)
        """The node of each pod, by the pod's name."""
        self._waits = {"taken_wait": str(taken_wait), "idle_wait": str(idle_wait)}
        self._numbers = itertools.count(1)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.control_plane)
            await stack.enter_async_context(self.admin)
            if self.control_plane.with_second_apiserver:
                # On one host both have the same one.
                await self.admin.call("POST", _LEASES, _LEASE_OF_SECOND)
            await install(self.control_plane)
            if not self._closing_guard:
                await self.control_plane.kubectl("delete", "--filename", CLOSING_GUARD)
            await stack.enter_async_context((await self._operator()).killed_at_end())
            credentials = await client_credentials.load(self.control_plane.kubeconfig)
            session = await stack.enter_async_context(open_session(credentials))
            api = Api(session, credentials.server, user_agent="gpusharing-tests")
            self.allocations = Allocations(api, excused=self.proxy.unanswered)
            for work in (self.allocations.follow(), self.allocations.follow_slices(), self._follow_pods(api)):
                stack.push_async_callback(_end, asyncio.create_task(work))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def proxy(self) -> SchedulerProxy:
        return self.control_plane.proxy

    async def _follow_pods(self, api: Api) -> None:
        async for _, pod in events(api, PODS):
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
            if node and not self.bound[name].done():
                self.bound[name].set_result(node)

    async def _operator(self) -> Process:
        kubeconfig = await self.control_plane.service_account_kubeconfig(NAMESPACE, "gpusharing-operator")
        flags: list[str | Path] = [
            "--kubeconfig",
            kubeconfig,
            "--listen",
            "127.0.0.1:0",
            "--idle-wait",
            self._waits["idle_wait"],
        ]
        return Process(
            [sys.executable, "-m", "gpusharing", "operator", *flags],
            log=self.control_plane.directory / "logs" / "operator.log",
            env={"PYTHONDONTWRITEBYTECODE": "", "SSL_CERT_FILE": os.devnull},
        )

    @asynccontextmanager
    async def node(self, *, gpus: str = "H100-80GB:1") -> AsyncIterator[GpuNode]:
        """A node that pods are bound to, with an agent on it."""
        async with GpuNode(self.control_plane, gpus=gpus, start=False) as node:
            path = f"/api/v1/nodes/{node.name}"
            await self.admin.merge(path, UNTAINTED)
            await self.admin.merge(f"{path}/status", {"status": ready_node(node.name)["status"]})
            node.agent = node.process(taken_wait=self._waits["taken_wait"])
            async with node.agent.killed_at_end():
                yield node

    async def offer(self, **offers: Any) -> None:
        """On all nodes."""
        path = f"{_POLICIES}/{_POLICY}"
        if await self.admin.call("GET", path, absent=True):
            # A merge would leave what is not offered any more.
            await self.admin.call(
                "PATCH",
                path,
                [{"op": "replace", "path": "/spec/offers", "value": offers}],
                content_type="application/json-patch+json",
            )
        else:
            await self.admin.call("POST", _POLICIES, policy(_POLICY, offers=offers))

    async def restrict(self, *, to: Mapping[str, str] | None) -> None:
        """The policy's GPUs are for namespaces with these labels only; None: for everybody."""
        tenants = {"namespaces": {"matchLabels": dict(to)}} if to else None
        await self.admin.merge(f"{_POLICIES}/{_POLICY}", {"spec": {"tenants": tenants}})

    async def device_class(self, name: str, expression: str) -> None:
        """Also of other makers."""
        spec = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}" && {expression}'}}]}
        await self.admin.call("POST", f"{RESOURCE}/deviceclasses", {"metadata": {"name": name}, "spec": spec})

    # ----------------------------------------------------------------------------------------------------- users

    async def start(self, wish: Wish, *, namespace: str = "default") -> Workload:
        workload = await self.claim(wish, namespace=namespace)
        await self.pod(workload)
        return workload

    async def claim(self, wish: Wish, *, namespace: str = "default") -> Workload:
        """Whose pod is still to come."""
        name = f"pod-{next(self._numbers)}"
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [wish.request()]}}}
        made = await self.admin.call("POST", f"{RESOURCE}/namespaces/{namespace}/resourceclaims", body)
        return Workload(Claim(made["metadata"]["uid"], name, namespace))

    async def pod(self, workload: Workload) -> None:
        container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
        spec = {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": workload.name}],
            "containers": [container],
        }
        pods, name = workload.pod.rsplit("/", 1)
        await self.admin.call("POST", pods, {"metadata": {"name": name}, "spec": spec})

    async def device(self, workload: Workload) -> str | None:
        """What its claim has, once its pod is bound."""
        pod = await self.admin.call("GET", workload.pod)
        if not pod["spec"].get("nodeName"):
            return None
        claim = await self.admin.call("GET", workload.claim.path)
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        return str(result["device"])

    async def gets(self, workload: Workload, device: str) -> None:
        async def check() -> None:
            found = await self.device(workload)
            assert found == device, found or (await self.admin.call("GET", workload.pod))["status"]

        await eventually(check)

    async def gets_once_tried(self, workload: Workload, device: str, *, on: GpuNode) -> None:
        """With whatever makes the scheduler try again, as something always does on a cluster that is used: an attempt
        that met another pod's allocation on its way is not repeated when that allocation is given up."""
        labels = itertools.count()

        async def check() -> None:
            if await self.device(workload) is None:
                labelled = {"metadata": {"labels": {"tests/tried": str(next(labels))}}}
                await self.admin.merge(f"/api/v1/nodes/{on.name}", labelled)
            assert await self.device(workload) == device

        await eventually(check)

    async def waits(self, *workloads: Workload, seconds: float = 3) -> None:
        """The scheduler has tried, and tries again each second."""
        await asyncio.sleep(seconds)
        for workload in workloads:
            assert await self.device(workload) is None
            conditions = (await self.admin.call("GET", workload.pod))["status"]["conditions"]
            assert [condition["reason"] for condition in conditions] == ["Unschedulable"], conditions

    async def runs(self, workload: Workload, device: str, *, on: GpuNode) -> None:
        await self.gets(workload, device)
        await self.prepare(workload, on=on)

    async def prepare(self, workload: Workload, *, on: GpuNode) -> None:
        error = await self.prepare_error(workload, on=on)
        assert not error, error

    async def prepare_error(self, workload: Workload, *, on: GpuNode) -> str:
        return (await on.kubelet.prepare(workload.claim))[workload.claim.uid].error

    async def ends(self, workload: Workload, *, on: GpuNode | None = None) -> None:
        """On a node where it was prepared, by itself; otherwise by force, of which the kubelet hears later."""
        if on:
            answer = await on.kubelet.unprepare(workload.claim)
            assert answer == {workload.claim.uid: ""}
        await self.admin.call("DELETE", workload.pod, {"gracePeriodSeconds": 0}, absent=True)
        await self.admin.call("DELETE", workload.claim.path, absent=True)

    async def is_going(self, workload: Workload) -> bool:
        """Whether its pod is being deleted; here no kubelet ends it."""
        return "deletionTimestamp" in (await self.admin.call("GET", workload.pod))["metadata"]

    async def has_failed(self, workload: Workload) -> None:
        """Waits until the scheduler has given up an attempt on its pod."""

        async def check() -> None:
            pod = await self.admin.call("GET", workload.pod)
            conditions = pod["status"].get("conditions", [])
            assert [condition["type"] for condition in conditions if condition["status"] == "False"] == ["PodScheduled"]

        await eventually(check)

    async def is_evicted(self, workload: Workload) -> None:
        async def check() -> None:
            pod = await self.admin.call("GET", workload.pod)
            reasons = [condition.get("reason") for condition in pod["status"]["conditions"]]
            assert "DeletionByDeviceTaintManager" in reasons, pod["status"]

        await eventually(check)

    async def shows(self, node: GpuNode, *devices: str) -> None:
        """Waits until the node publishes exactly this; `-` before what is closing."""

        async def check() -> None:
            assert await self.published(node) == set(devices)

        await eventually(check)

    async def offers_everything(self, node: GpuNode) -> None:
        """Waits until the first GPU can be had in every way."""

        async def check() -> None:
            first = {name for name in await self.published(node) if name == "gpu-0" or name.startswith("gpu-0-")}
            assert first >= {"gpu-0", "gpu-0-timeslicing", "gpu-0-mps", "gpu-0-mig-1g10gb-19-6", "gpu-0-mig-3g40gb-9-0"}

        await eventually(check)

    async def published(self, node: GpuNode) -> set[str]:
        devices = await node.devices()
        return {("-" if device.get("taints") else "") + name for name, device in devices.items()}


async def _end(task: asyncio.Task[None]) -> None:
    """What watches must have watched to the end."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
