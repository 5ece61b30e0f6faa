"""A real API server with manifests/base and an operator; the test plays everybody else."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from building import DRIVER, gpu_status
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing.gpu_status import PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.controller.operate import operate
from gpusharing.controller.running import Options
from gpusharing.kube import client_credentials
from gpusharing.kube.address import Address
from gpusharing.kube.kinds import EVENTS, NODE_SHARINGS, NODES, RESOURCE_CLAIMS, SHARING_POLICIES, Kind
from gpusharing.kube.transport import Api, open_session
from harness.api_servers import AnyControlPlane, apply_manifests
from harness.eventually import PATIENCE
from harness.gpu_cluster import MANIFESTS, NAMESPACE
from harness.loopback import free_ports
from harness.processes import Process
from harness.readiness import answers


async def install(control_plane: AnyControlPlane) -> None:
    await apply_manifests(control_plane, MANIFESTS)


class Operator(Process):
    """The operator as a program, with the rights that its ServiceAccount has."""

    def __init__(self, *options: str, kubeconfig: Path, address: str, log: Path) -> None:
        (port,) = free_ports(address, 1)
        self.kubeconfig = kubeconfig
        self.url = f"http://{address}:{port}"
        super().__init__(
            [
                sys.executable,
                "-m",
                "gpusharing",
                "operator",
                "--kubeconfig",
                kubeconfig,
                "--listen",
                f"{address}:{port}",
                *options,
            ],
            log=log,
            ready=lambda: answers(f"{self.url}/readyz"),
        )

    @classmethod
    async def of(cls, control_plane: AnyControlPlane, *options: str, log: str = "operator") -> "Operator":
        kubeconfig = await control_plane.service_account_kubeconfig(NAMESPACE, "gpusharing-operator")
        return cls(
            *options,
            kubeconfig=kubeconfig,
            address=control_plane.address,
            log=control_plane.directory / "logs" / f"{log}.log",
        )

    async def metric(self, name: str) -> float:
        lines = (await self._metrics()).splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    async def metrics_of(self, policy: str, name: str) -> dict[tuple[str, ...], float]:
        """The values of a metric that are not 0, by the other labels in the order of their names."""
        families = text_string_to_metric_families(await self._metrics())
        return {
            tuple(value for label, value in sorted(sample.labels.items()) if label != "policy"): sample.value
            for family in families
            for sample in family.samples
            if sample.name == f"gpusharing_{name}" and sample.labels["policy"] == policy and sample.value
        }

    async def _metrics(self) -> str:
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/metrics") as response:
            return await response.text()

    async def leads(self) -> bool:
        return await self.metric("gpusharing_leading") == 1

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@dataclass(frozen=True)
class Everybody:
    """Admins, agents and users."""

    api: Api

    async def make_node(
        self,
        name: str,
        *,
        gpus: int = 1,
        labels: Mapping[str, str] | None = None,
        report: NodeSharingStatus | None = None,
    ) -> None:
        """A Node with an agent that has just come, and reports so many GPUs, or this."""
        node = await self.api.create(NODES, {"metadata": {"name": name, "labels": dict(labels or {})}})
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
        await self.api.create(NODE_SHARINGS, {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": {}})
        found = tuple(gpu_status(slot, node=name) for slot in range(gpus))
        await self.report(name, report or NodeSharingStatus(observed_generation=1, gpus=found))

    async def agent_acts(self, name: str, conditions: tuple[Condition, ...] = ()) -> None:
        """The agent puts in force what it is told."""
        sharing = await self.api.get(NODE_SHARINGS, name)
        told = {gpu.uuid: gpu.policy for gpu in sharing.spec.gpus}
        gpus = tuple(
            gpu.model_copy(
                update={
                    "policy": told.get(gpu.uuid),
                    "published": (PublishedDevice(device=f"gpu-{gpu.slot}"),),
                    "conditions": conditions,
                }
            )
            for gpu in sharing.status.gpus
        )
        await self.report(name, NodeSharingStatus(observed_generation=sharing.metadata.generation, gpus=gpus))

    async def fails(self, name: str, message: str) -> None:
        """The agent does as it is told, and the hardware does not."""
        wrong = Condition(
            type="Healthy",
            status=ConditionStatus.FALSE,
            reason="GpuLost",
            message=message,
            last_transition_time="2026-11-18T12:00:00Z",
        )
        await self.agent_acts(name, (wrong,))

    async def report(self, name: str, status: NodeSharingStatus) -> None:
        await self.api.merge_patch(NODE_SHARINGS, name, {"status": status.to_json()}, subresource="status")

    async def apply_policy(self, name: str, **spec: Any) -> None:
        whole = {"offers": {"timeSlicing": {"maxClients": 4}}} | spec
        await self.api.create(SHARING_POLICIES, {"metadata": {"name": name}, "spec": whole})

    async def delete_policy(self, name: str) -> None:
        policy = await self.api.get(SHARING_POLICIES, name)
        await self.api.delete(SHARING_POLICIES, name, uid=policy.metadata.uid)

    async def make_claim(self, name: str, device_class: str = "gpu.nvidia.com") -> ResourceClaim:
        request = {"name": "gpu", "exactly": {"deviceClassName": device_class}}
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        return await self.api.create(RESOURCE_CLAIMS, body, "default")

    async def hold(
        self, name: str, *, device: str, node: str = "n1", tolerations: Sequence[Mapping[str, Any]] = ()
    ) -> str:
        """A claim that the scheduler has given a device; its uid."""
        claim = await self.make_claim(name)
        await self.allocate(name, device=device, node=node, tolerations=tolerations)
        return claim.metadata.uid

    async def allocate(
        self, name: str, *, device: str, node: str, tolerations: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """As the scheduler does it."""
        result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device, "tolerations": list(tolerations)}
        status = {"status": {"allocation": {"devices": {"results": [result]}}}}
        await self.api.merge_patch(RESOURCE_CLAIMS, name, status, namespace="default", subresource="status")

    async def holders(self, node: str) -> set[str]:
        """The claims on it, as the operator tells its agent."""
        return {entry.uid for entry in (await self.sharing(node)).spec.claims}

    async def leave(self, name: str) -> None:
        """The claim goes, with its pod."""
        claim = await self.api.get(RESOURCE_CLAIMS, name, namespace="default")
        await self.api.delete(RESOURCE_CLAIMS, name, uid=claim.metadata.uid, namespace="default")

    async def edit_policy(self, name: str, **spec: Any) -> None:
        await self.api.merge_patch(SHARING_POLICIES, name, {"spec": spec})

    async def sharing(self, name: str) -> NodeSharing:
        return await self.api.get(NODE_SHARINGS, name)

    async def winners(self, name: str) -> list[str | None]:
        """Who won each GPU of a node."""
        gpus = (await self.sharing(name)).spec.gpus
        return [gpu.policy.name if gpu.policy else None for gpu in gpus]

    async def generations(self, name: str) -> list[int | None]:
        """Of the policies in a node's spec."""
        gpus = (await self.sharing(name)).spec.gpus
        return [gpu.policy.generation if gpu.policy else None for gpu in gpus]

    async def evicting(self) -> list[str]:
        """Nodes with GPUs from which pods are evicted."""
        sharings, _ = await self.api.list(NODE_SHARINGS)
        return sorted(one.metadata.name for one in sharings if any(gpu.drain for gpu in one.spec.gpus))

    async def won(self, name: str) -> int | None:
        gpus = (await self.policy(name)).status.gpus
        return gpus.won if gpus else None

    async def evictions_planned(self, name: str) -> int | None:
        plan = (await self.policy(name)).status.plan
        return plan.totals.evicted if plan else None

    async def conflicts(self) -> dict[str, str | None]:
        policies, _ = await self.api.list(SHARING_POLICIES)
        return {one.metadata.name: await self.reason(one.metadata.name, "Conflicted") for one in policies}

    async def policy(self, name: str) -> SharingPolicy:
        return await self.api.get(SHARING_POLICIES, name)

    async def condition(self, name: str, type_: str) -> Condition | None:
        conditions = (await self.policy(name)).status.conditions
        return next((condition for condition in conditions if condition.type == type_), None)

    async def reason(self, name: str, type_: str) -> str | None:
        condition = await self.condition(name, type_)
        return condition.reason if condition else None

    async def message(self, name: str, type_: str) -> str | None:
        condition = await self.condition(name, type_)
        return condition.message if condition else None

    async def ready(self, name: str) -> Condition | None:
        return await self.condition(name, "Ready")

    async def ready_reason(self, name: str) -> str | None:
        condition = await self.ready(name)
        return condition.reason if condition else None

    async def told(self, name: str) -> list[str]:
        """What Events say about a policy, in order."""
        events, _ = await self.api.list(EVENTS)
        about = [event for event in events if event["regarding"].get("name") == name]
        about.sort(key=lambda event: str(event["eventTime"]))
        return [f"{event['type']} {event['reason']}" for event in about]

    async def clean_up(self) -> None:
        kinds: tuple[Kind[Any], ...] = (RESOURCE_CLAIMS, SHARING_POLICIES, NODE_SHARINGS, NODES)
        for kind in kinds:
            for item in (await self.api.list(kind))[0]:
                metadata = item.metadata
                await self.api.delete(kind, metadata.name, uid=metadata.uid, namespace=metadata.namespace)


@asynccontextmanager
async def operating(kubeconfig: Path) -> AsyncIterator[None]:
    """The operator in the test's own process, so that a test can get between its parts."""
    task = asyncio.create_task(
        operate(Options(kubeconfig=kubeconfig, listen=Address("127.0.0.1", 0), lease_duration=60))
    )
    try:
        yield
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait({task}, timeout=PATIENCE)
        # Without Kopf, it is cancelled.
        assert task.cancelled() or task.result() is None


@asynccontextmanager
async def everybody(control_plane: AnyControlPlane) -> AsyncIterator[Everybody]:
    credentials = await client_credentials.load(control_plane.kubeconfig)
    async with open_session(credentials) as session:
        yield Everybody(Api(session, credentials.server, user_agent="test"))


async def eventually(question: Callable[[], Awaitable[object]], expected: object, *, within: float = PATIENCE) -> None:
    """Waits for an answer, and says at the end what it was instead."""
    answer = await question()
    try:
        async with asyncio.timeout(within):
            while answer != expected:
                await asyncio.sleep(0.05)
                answer = await question()
    except TimeoutError:
        raise AssertionError(f"still {answer!r} after {within:g} s, not {expected!r}") from None
