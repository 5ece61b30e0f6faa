"""The real Kueue next to the real scheduler, operator and an agent with simulated GPUs; nothing runs the pods."""

import io
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, Final

import pytest

from agent.on_cluster import Admin, GpuNode
from controller.bed import Operator, install
from gpusharing.cli.main import main
from gpusharing.core import quantities
from gpusharing.snapshots.world import CLAIMS, CLASSES, NAMESPACES, PODS, POLICIES, SLICES, TEMPLATES, Resource
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.kueue import Kueue
from harness.ready_nodes import UNTAINTED, ready_node
from harness.workloads import policy

NAMESPACE: Final = "models"
QUEUE: Final = f"namespace-{NAMESPACE}"
EXTENDED: Final = "example.com/gpu-shared"
RESEARCH: Final = policy(
    "research",
    offers={
        "exclusive": {},
        "timeSlicing": {"maxClients": 4, "memory": {"default": "8Gi", "enforcement": "Preferred"}},
        "mps": {"maxClients": 8, "memory": {"default": "8Gi", "min": "1Gi"}, "threads": {"default": 10}},
        "mig": {"profiles": ["1g.10gb", "3g.40gb"]},
    },
    tenants={
        "namespaces": {"matchLabels": {"team": "research"}},
        "quota": {"exclusive": 1, "timeSlicing": 3, "mps": 4, "mig": 2},
    },
    classes={
        "extendedResources": {"timeSlicing": EXTENDED},
        "templates": True,
        "templateVariants": [
            {"name": "double", "mode": "TimeSlicing", "shares": 2},
            {"name": "large", "mode": "MPS", "memory": "16Gi"},
            {"name": "small", "mode": "MIG", "profile": "1g.10gb"},
            {"name": "half", "mode": "MIG", "profile": "3g.40gb"},
        ],
    },
)
_KUEUE: Final = "kueue.x-k8s.io/v1beta2"
JOBS: Final = Resource("batch/v1", "Job", "jobs", "jobs", is_namespaced=True)
WORKLOADS: Final = Resource(_KUEUE, "Workload", "workloads", "workloads", is_namespaced=True)
CLUSTER_QUEUES: Final = Resource(_KUEUE, "ClusterQueue", "clusterqueues", "queues")

_numbers: Final = itertools.count(1)


@dataclass
class Bed:
    control_plane: ControlPlane
    admin: Admin
    kueue: Kueue
    given: object = None
    """The options of the export that Kueue has, and the quotas that were filled in."""
    said: str = ""
    """By this export."""

    def export(self, *options: str) -> tuple[list[Any], str]:
        """Objects, and what is said of them."""
        out, err = io.StringIO(), io.StringIO()
        arguments = ["export", *options, "-o", "json", "--kubeconfig", str(self.control_plane.kubeconfig)]
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0, err.getvalue()
        return list(json.loads(out.getvalue())["items"]), err.getvalue()

    async def configure(self, *options: str, quotas: Mapping[str, str | int] | None = None) -> None:
        """Kueue, and its queue, as an export has them. `quotas`: those that people fill in, by resource."""
        [configuration, *queues], self.said = self.export("kueue", *options)
        for one in queues:
            if one["kind"] == "ClusterQueue":
                [group] = one["spec"]["resourceGroups"]
                for quota in group["flavors"][0]["resources"]:
                    quota["nominalQuota"] = (quotas or {}).get(quota["name"], quota["nominalQuota"])
        self.kueue.configure(configuration)
        await self.kueue.restart()
        await self.apply(queues)
        self.given = options, quotas

    async def apply(self, queues: Sequence[Any]) -> None:
        body = {"apiVersion": "v1", "kind": "List", "items": queues}
        await self.control_plane.kubectl("apply", "--filename=-", stdin=json.dumps(body))

    async def cover(self, resource: str, quota: int) -> None:
        """One more resource in the queue, as people add cpu."""
        _, *queues = self.export("kueue")[0]
        [queue] = [one for one in queues if one["kind"] == "ClusterQueue"]
        [group] = queue["spec"]["resourceGroups"]
        group["coveredResources"].append(resource)
        group["flavors"][0]["resources"].append({"name": resource, "nominalQuota": quota})
        await self.apply([queue])
        # What comes next is to have its own queue.
        self.given = None

    # ------------------------------------------------------------------------------------------------------------ jobs

    async def submit(
        self, template: str = "", *, claim: str = "", resource: str = "", fields: Sequence[str] = ("requests", "limits")
    ) -> str:
        """A job of one pod, with its device from a template, a claim or an extended resource; its name."""
        name = f"job-{next(_numbers)}"
        container: dict[str, Any] = {"name": "main", "image": "none"}
        pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
        if resource:
            container["resources"] = {field: {resource: "1"} for field in fields}
        else:
            source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
            pod["resourceClaims"] = [{"name": "gpu", **source}]
            container["resources"] = {"claims": [{"name": "gpu"}]}
        metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "gpus"}}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}
        await self.admin.call("POST", JOBS.path(namespace=NAMESPACE), body)
        return name

    async def all(self, resource: Resource) -> list[Any]:
        found = await self.admin.call("GET", resource.path(namespace=NAMESPACE if resource.is_namespaced else ""))
        return list(found["items"])

    async def workload(self, job: str) -> Any:
        """Of Kueue."""
        found = [
            one
            for one in await self.all(WORKLOADS)
            if job in {owner["name"] for owner in one["metadata"]["ownerReferences"]}
        ]
        assert len(found) == 1, (job, found)
        return found[0]

    async def condition(self, job: str, type_: str) -> Mapping[str, Any]:
        conditions = (await self.workload(job)).get("status", {}).get("conditions", ())
        return next((one for one in conditions if one["type"] == type_), {})

    async def is_admitted(self, job: str) -> bool:
        return (await self.condition(job, "Admitted")).get("status") == "True"

    async def until_running(self, *jobs: str) -> None:
        """Kueue has admitted them, and the scheduler has given devices to their pods."""

        async def are_bound() -> None:
            pods = {pod["metadata"]["labels"]["job-name"]: pod for pod in await self.all(PODS)}
            waiting = [job for job in jobs if not pods.get(job, {"spec": {}})["spec"].get("nodeName")]
            assert not waiting, [(job, (await self.workload(job)).get("status")) for job in waiting]

        await eventually(are_bound)

    async def until_waiting(self, job: str, said: str) -> None:
        async def waits() -> None:
            condition = await self.condition(job, "QuotaReserved")
            assert condition.get("status") == "False", await self.workload(job)
            assert said in condition["message"], condition["message"]

        await eventually(waits)
        assert not await self.is_admitted(job)

    # ---------------------------------------------------------------------------------------------------------- amounts

    async def charged(self) -> dict[str, int]:
        """What the queue says is used of each resource."""
        queue = await self.admin.call("GET", CLUSTER_QUEUES.path(name=QUEUE))
        [flavor] = queue["status"]["flavorsUsage"]
        used = {one["name"]: quantities.whole(str(one["total"])) for one in flavor["resources"]}
        return {name: amount for name, amount in used.items() if amount}

    async def until_charged(self, expected: Mapping[str, int]) -> None:
        async def is_charged() -> None:
            assert await self.charged() == expected

        await eventually(is_charged)

    async def allocated(self) -> list[Any]:
        """The devices that the claims of all jobs have."""
        return [
            result
            for claim in await self.all(CLAIMS)
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        ]

    async def memory_of_allocated_devices(self) -> list[int]:
        """As their ResourceSlices have it, in bytes."""
        wanted = {one["device"] for one in await self.allocated()}
        devices = [device for one in await self.all(SLICES) for device in one["spec"].get("devices", ())]
        return [quantities.whole(one["capacity"]["memory"]["value"]) for one in devices if one["name"] in wanted]

    async def end(self, job: str) -> None:
        """Nothing runs, so its pod is deleted at once."""
        [pod] = [one for one in await self.all(PODS) if one["metadata"]["labels"]["job-name"] == job]
        for path in (
            JOBS.path(namespace=NAMESPACE, name=job),
            PODS.path(namespace=NAMESPACE, name=pod["metadata"]["name"]),
        ):
            await self.admin.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    async def clean(self) -> None:
        """Nothing runs, so nothing has to end."""
        for resource in (JOBS, PODS, CLAIMS):
            options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
            await self.admin.call("DELETE", resource.path(namespace=NAMESPACE), options)

        async def is_clean() -> None:
            for resource in (JOBS, PODS, CLAIMS, WORKLOADS):
                assert [one["metadata"]["name"] for one in await self.all(resource)] == []
            assert await self.charged() == {}

        await eventually(is_clean)


@asynccontextmanager
async def a_bed(*, gpus: str = "H100-80GB:4") -> AsyncIterator[Bed]:
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(ControlPlane())
        admin = await stack.enter_async_context(Admin(plane))
        await install(plane)
        await stack.enter_async_context((await Operator.of(plane)).killed_at_end())
        await stack.enter_async_context(a_node(plane, admin, gpus))
        labels = {"team": "research", "resource.kubernetes.io/admin-access": "true"}
        await admin.call("POST", NAMESPACES.path(), {"metadata": {"name": NAMESPACE, "labels": labels}})
        await admin.call("POST", POLICIES.path(), RESEARCH)
        kueue = await Kueue.of(plane)
        bed = Bed(plane, admin, kueue)
        await _until_offered(bed)
        stack.push_async_callback(kueue.kill)
        yield bed


@asynccontextmanager
async def a_node(plane: ControlPlane, admin: Admin, gpus: str) -> AsyncIterator[GpuNode]:
    """Pods are bound to it, and its agent publishes what the policy offers."""
    async with GpuNode(plane, gpus=gpus) as node:
        path = f"/api/v1/nodes/{node.name}"
        await admin.merge(path, UNTAINTED)
        await admin.merge(f"{path}/status", {"status": ready_node(node.name)["status"]})
        yield node


async def _until_offered(bed: Bed) -> None:
    offered: Sequence[str] = [*RESEARCH["spec"]["offers"]]

    async def is_offered() -> None:
        policy_ = await bed.admin.call("GET", POLICIES.path(name="research"))
        conditions = {one["type"]: one["status"] for one in policy_.get("status", {}).get("conditions", ())}
        assert conditions.get("Ready") == "True", policy_.get("status")
        classes = {one["metadata"]["name"] for one in await bed.all(CLASSES)}
        assert {f"research-{mode.lower()}" for mode in offered} <= classes
        variants = RESEARCH["spec"]["classes"]["templateVariants"]
        assert len(await bed.all(TEMPLATES)) == len(offered) + len(variants)
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        assert await bed.admin.call("GET", path, absent=True)

    await eventually(is_offered)
