"""A real control plane with the operator. One policy has tenants; people of two namespaces try to get at its GPUs.

The test publishes what an agent would. Both people have the ClusterRole admin in their namespaces, and nothing else.
"""

import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp

from controller.bed import Operator, install
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.ready_nodes import UNTAINTED, ready_node
from harness.workloads import policy

DRIVER: Final = "gpu.nvidia.com"
NODE: Final = "n1"
POOL: Final = "n1/search"

RESOURCE: Final = "/apis/resource.k8s.io/v1"
CLASSES: Final = f"{RESOURCE}/deviceclasses"
GUARDS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
MARKER: Final = "written-last"
POLICIES: Final = "/apis/gpusharing.dev/v1alpha1/sharingpolicies"

ALLOW: Final = {
    "gpuConfig": ["TimeSlicing"],
    "intervals": ["Default", "Short"],
    "maxThreads": 50,
    "maxMemory": "20Gi",
    "maxShares": 1,
}
SEARCH: Final = policy(
    "search",
    priority=100,
    offers={
        "exclusive": {},
        "timeSlicing": {"maxClients": 8},
        "mps": {"maxClients": 8, "memory": {"default": "8Gi"}, "threads": {"default": 25}},
        "mig": {"profiles": ["1g.10gb"]},
    },
    tenants={"namespaces": {"matchLabels": {"team": "search"}}, "allow": ALLOW, "quota": {"mig": 2}},
    classes={"extendedResources": {"timeSlicing": "example.com/gpu-shared"}},
)

_names = itertools.count(1)


def fresh(prefix: str) -> str:
    return f"{prefix}-{next(_names)}"


class Answer(NamedTuple):
    code: int
    body: Any

    @property
    def says(self) -> str:
        return str(self.body.get("message", ""))

    def must(self) -> Any:
        assert self.code < 300, f"{self.code}: {self.says}"
        return self.body


@dataclass(frozen=True)
class Person:
    session: aiohttp.ClientSession
    server: str
    namespace: str = "default"

    async def ask(self, method: str, path: str, body: Any = None, *, dry: bool = False) -> Answer:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body)
        query = {"dryRun": "All"} if dry else {}
        url, headers = self.server + path, {"Content-Type": content}
        async with self.session.request(method, url, params=query, data=data, headers=headers) as answer:
            return Answer(answer.status, await answer.json())

    def claims(self, name: str = "", *, version: str = "v1") -> str:
        path = f"/apis/resource.k8s.io/{version}/namespaces/{self.namespace}/resourceclaims"
        return f"{path}/{name}" if name else path

    def templates(self) -> str:
        return f"{RESOURCE}/namespaces/{self.namespace}/resourceclaimtemplates"

    def pods(self, name: str = "") -> str:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return f"{path}/{name}" if name else path

    async def asks_for(self, *requests: Mapping[str, Any], name: str = "", **devices: Any) -> Answer:
        """A claim."""
        return await self.ask("POST", self.claims(), claim(name or fresh("claim"), *requests, **devices))

    async def runs(self, *claims: str) -> str:
        """A pod that uses these claims; its name."""
        name = fresh("pod")
        (await self.ask("POST", self.pods(), pod(name, claims))).must()
        return name

    async def gets(self, *requests: Mapping[str, Any], **devices: Any) -> Answer:
        """What becomes of a claim and its pod: where the scheduler refuses, what the pod says."""
        made = await self.asks_for(*requests, **devices)
        if made.code >= 300:
            return made
        name = made.body["metadata"]["name"]
        return await self.outcome(await self.runs(name), name)

    async def outcome(self, pod_name: str, claim_name: str = "") -> Answer:
        """Of the scheduler: 200 with the claim, once the pod is bound; otherwise the reason that the pod gives."""
        condition = await self.scheduled(pod_name)
        if condition["status"] == "True":
            return await self.ask("GET", self.claims(claim_name))
        return Answer(403, {"message": f"{condition['reason']}: {condition['message']}"})

    async def scheduled(self, pod_name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def check() -> None:
            status = (await self.ask("GET", self.pods(pod_name))).must()["status"]
            conditions = [item for item in status.get("conditions", ()) if item["type"] == "PodScheduled"]
            assert conditions
            found.update(conditions[0])

        await eventually(check)
        return found

    async def events(self, name: str) -> list[str]:
        path = f"/api/v1/namespaces/{self.namespace}/events?fieldSelector=involvedObject.name={name}"
        events = (await self.ask("GET", path)).must()["items"]
        return [f"{event['reason']}: {event['message']}" for event in events]

    async def cleans_up(self) -> None:
        for path in (
            f"/apis/apps/v1/namespaces/{self.namespace}/deployments",
            self.pods(),
            self.claims(),
            self.templates(),
        ):
            await self.ask("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

        async def gone() -> None:
            # An allocated claim stays until its controller has seen that no pod uses it.
            for path in (self.pods(), self.claims()):
                assert (await self.ask("GET", path)).must()["items"] == []

        await eventually(gone)


class Bed:
    def __init__(self, control_plane: ControlPlane, operator: Operator, people: Mapping[str, Person]) -> None:
        self.control_plane = control_plane
        self.operator = operator
        self.admin = people["admin"]
        self.tenant = people["search"]
        self.other = people["other"]

    async def set_label(self, namespace: str, team: str | None) -> None:
        labels = {"metadata": {"labels": {"team": team}}}
        (await self.admin.ask("PATCH", f"/api/v1/namespaces/{namespace}", labels)).must()

    async def apply(self, body: dict[str, Any]) -> None:
        """A policy; returns when the guards that know of it are in force, which were written before its classes."""
        name = body["metadata"]["name"]
        (await self.admin.ask("POST", POLICIES, body)).must()

        async def check() -> None:
            classes = (await self.admin.ask("GET", CLASSES)).must()["items"]
            assert len([item for item in classes if item["metadata"]["name"].startswith(f"{name}-")]) == len(
                body["spec"]["offers"]
            )

        await eventually(check)
        await self.guards_in_force()

    async def guards_in_force(self) -> None:
        """Returns when the API server holds to the guards as they are written now.

        It takes over what was written up to a second later, in the order of the writes: a guard of the test's own,
        written last, says when.
        """
        name = fresh("written-last")
        for path, body in marker(name).items():
            written = await self.admin.ask("PATCH", f"{path}/{MARKER}", body)
            if written.code == 404:
                written = await self.admin.ask("POST", path, body)
            written.must()

        async def check() -> None:
            path = "/api/v1/namespaces/default/configmaps"
            answer = await self.admin.ask("POST", path, {"metadata": {"name": name}}, dry=True)
            assert (answer.code, MARKER in answer.says) == (422, True), answer

        await eventually(check)

    async def literal(self, guard: str, variable: str) -> str:
        spec = (await self.admin.ask("GET", f"{GUARDS}/{guard}")).must()["spec"]
        return next(str(item["expression"]) for item in spec["variables"] if item["name"] == variable)

    async def has_tenants_of(self, policies: int, *guards: str) -> None:
        """Waits until these guards name so many policies; they are written in their own order, and bundled."""

        async def check() -> None:
            for guard in guards:
                # The brackets have lines of their own.
                assert (await self.literal(f"gpusharing-{guard}", "tenants")).count("\n") == policies + 1

        await eventually(check)

    async def refused(self) -> None:
        """Returns when the API server knows by its labels that the namespace is a stranger's."""

        async def check() -> None:
            answer = await self.other.ask("POST", self.other.claims(), claim("probe", request("search-mps")), dry=True)
            assert answer.code == 403, answer

        await eventually(check)


@asynccontextmanager
async def a_bed(*, emulated_version: str | None = None) -> AsyncIterator[Bed]:
    async with AsyncExitStack() as stack:
        control_plane = await stack.enter_async_context(
            ControlPlane(
                emulated_version=emulated_version,
                runtime_config="resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
            )
        )
        await install(control_plane)
        people = {"admin": await _person(stack, control_plane.kubeconfig)}
        for namespace, team in (("search", "search"), ("other", "ads")):
            people[namespace] = await _admin_of(stack, control_plane, namespace, team)
        await _node(people["admin"])
        operator = await Operator.of(control_plane)
        await stack.enter_async_context(operator.killed_at_end())
        bed = Bed(control_plane, operator, people)
        await bed.apply(SEARCH)
        yield bed


async def _person(stack: AsyncExitStack, kubeconfig: Path, namespace: str = "default") -> Person:
    credentials = await client_credentials.load(kubeconfig)
    return Person(await stack.enter_async_context(open_session(credentials)), credentials.server, namespace)


async def _admin_of(stack: AsyncExitStack, control_plane: ControlPlane, namespace: str, team: str) -> Person:
    user = f"admin-of-{namespace}"
    await control_plane.kubectl("create", "namespace", namespace)
    await control_plane.kubectl("label", "namespace", namespace, f"team={team}")
    role = ("--clusterrole=admin", f"--user={user}", f"--namespace={namespace}")
    await control_plane.kubectl("create", "rolebinding", "admin", *role)
    await control_plane.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={namespace}")
    return await _person(stack, await control_plane.user_kubeconfig(user), namespace)


async def _node(admin: Person) -> None:
    (await admin.ask("POST", "/api/v1/nodes", ready_node(NODE))).must()
    (await admin.ask("PATCH", f"/api/v1/nodes/{NODE}", UNTAINTED)).must()
    (await admin.ask("POST", f"{RESOURCE}/resourceslices", slice_of(POOL, DEVICES))).must()
    # Made by the platform team for something else: they know nothing of tenants.
    for name, expression in FOREIGN.items():
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        (await admin.ask("POST", CLASSES, {"metadata": {"name": name}, "spec": spec})).must()


FOREIGN: Final = {
    "any-gpu": f'device.driver == "{DRIVER}"',
    "any-whole-gpu": f'device.driver == "{DRIVER}" && !device.allowMultipleAllocations',
    "nvidias": f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"',
    "any-share": f'device.driver == "{DRIVER}" && device.allowMultipleAllocations && '
    '!has(device.attributes["gpusharing.dev"].closing)',
}


# ----------------------------------------------------------------------------------------------------------- objects


def marker(name: str) -> dict[str, dict[str, Any]]:
    """A guard against a ConfigMap of this name, and its binding, by where they belong."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f'object.metadata.name != "{name}"'}],
    }
    binding = {"policyName": MARKER, "validationActions": ["Deny"]}
    return {
        GUARDS: {"metadata": {"name": MARKER}, "spec": spec},
        BINDINGS: {"metadata": {"name": MARKER}, "spec": binding},
    }


def attributes(sharing: str, **more: bool) -> dict[str, Any]:
    return {
        "type": {"string": "restricted" if sharing == "Exclusive" else "shared"},
        "gpusharing.dev/sharing": {"string": sharing},
        "gpusharing.dev/policy": {"string": "search"},
        "gpusharing.dev/restricted": {"bool": True},
        **{f"gpusharing.dev/{name}": {"bool": value} for name, value in more.items()},
    }


def amount(total: str, default: str) -> dict[str, Any]:
    """Without a maximum, as no agent of ours publishes it: here the wall is alone."""
    least = "1" if total.isdecimal() else "1Mi"
    return {"value": total, "requestPolicy": {"default": default, "validRange": {"min": least, "max": total}}}


def shared_device(name: str, sharing: str, **more: bool) -> dict[str, Any]:
    capacity = {"shares": amount("64", "1"), "memory": amount("800Gi", "4Gi"), "threads": amount("1000", "10")}
    return {
        "name": name,
        "attributes": attributes(sharing, **more),
        "allowMultipleAllocations": True,
        "capacity": capacity,
    }


DEVICES: Final = [
    *({"name": f"gpu-{slot}", "attributes": attributes("Exclusive")} for slot in range(40)),
    shared_device("gpu-40-timeslicing", "TimeSlicing", closing=True),
    shared_device("gpu-41-timeslicing", "TimeSlicing"),
    shared_device("gpu-42-mps", "MPS"),
]


def slice_of(pool: str, devices: list[Any]) -> dict[str, Any]:
    named = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": NODE, "pool": named, "devices": devices}
    return {"metadata": {"name": pool.replace("/", "-")}, "spec": spec}


def request(device_class: str, name: str = "gpu", **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


def capacity(**amounts: str) -> dict[str, Any]:
    return {"capacity": {"requests": amounts}}


def claim_spec(*requests: Mapping[str, Any], **devices: Any) -> dict[str, Any]:
    return {"devices": {"requests": list(requests), **devices}}


def claim(name: str, *requests: Mapping[str, Any], **devices: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": claim_spec(*requests, **devices)}


def config(sharing: Any, **more: Any) -> dict[str, Any]:
    """NVIDIA's, for the claim as a whole."""
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing} | more
    return {"config": [{"opaque": {"driver": DRIVER, "parameters": parameters}}]}


def pod(name: str, claims: tuple[str, ...] = (), *, limits: Mapping[str, str] | None = None) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "none",
        "resources": {"claims": [{"name": item} for item in claims], "limits": dict(limits or {})},
    }
    used = [{"name": item, "resourceClaimName": item} for item in claims]
    return {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": used}}
