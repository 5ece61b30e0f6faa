"""The real kube-scheduler, with all that is around its allocator: pods come and go, and each gets what we say."""

import itertools
from collections.abc import AsyncIterator
from random import Random
from typing import Any, Final

import pytest
import pytest_asyncio

from agent.on_cluster import RESOURCE, Admin
from allocating import foreign_slices, pods
from allocating.comparison import Answer, Ours, their_answer
from allocating.worlds import Json, world
from gpusharing.core.allocate.extended_resources import IMPLICIT, ExtendedResources
from gpusharing.core.allocate.pod_claims import claims_of_pod
from gpusharing.core.allocate.requests import Claim
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.ready_nodes import UNTAINTED, ready_node

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

MINOR: Final = 37
CLUSTERS: Final = 6
PODS: Final = 12
LABELS: Final[tuple[dict[str, str], ...]] = ({"zone": "a", "rank": "1"}, {"zone": "b", "rank": "2"}, {})
NODES: Final[list[Json]] = [
    {"metadata": {"name": f"n{number}", "labels": {"kubernetes.io/hostname": f"n{number}", **labels}}}
    for number, labels in enumerate(LABELS)
]

RULE: Final[Json] = {
    "deviceSelector": {"driver": foreign_slices.DRIVERS[0], "device": "dev-1"},
    "taint": {"key": foreign_slices.TAINTS[0], "effect": "NoSchedule"},
}

_CLAIMS: Final = f"{RESOURCE}/namespaces/default/resourceclaims"
_PODS: Final = "/api/v1/namespaces/default/pods"
_SLICES: Final = f"{RESOURCE}/resourceslices"
_MARKER: Final = "marker.example.com"
_AT_ONCE: Final = {"gracePeriodSeconds": 0}

_numbers = itertools.count(1)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def admin(toolchain: object) -> AsyncIterator[Admin]:
    async with ControlPlane() as control_plane, Admin(control_plane) as admin:
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await admin.merge("/api/v1/namespaces/default", label)
        await admin.call("POST", f"{RESOURCE}/devicetaintrules", {"metadata": {"name": "rule"}, "spec": RULE})
        for node in NODES:
            name = node["metadata"]["name"]
            await admin.call("POST", "/api/v1/nodes", ready_node(name) | node)
            await admin.merge(f"/api/v1/nodes/{name}", UNTAINTED)
            await admin.merge(f"/api/v1/nodes/{name}/status", {"status": ready_node(name)["status"]})
        expression = f'device.driver == "{_MARKER}"'
        marker = {"metadata": {"name": "marker"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
        for one in (*pods.CLASSES, marker):
            await admin.call("POST", f"{RESOURCE}/deviceclasses", one)
        yield admin


@pytest.mark.parametrize("number", range(CLUSTERS))
async def test_each_pod_gets_what_we_say(admin: Admin, number: int) -> None:
    random = Random(number)  # noqa: S311 (no secret)
    there = world(MINOR, number, nodes=NODES)
    there.allocated.clear()
    for one in there.slices:
        for device in one["spec"].get("devices", ()):
            # Nobody would ever fulfil them.
            device.pop("bindingConditions", None)
            device.pop("bindingFailureConditions", None)
    await publish(admin, there.slices)
    ours = Ours(there, MINOR, rules=[RULE])
    classes = pods.suitable_classes(there.slices)
    living: list[Running] = []
    seen = set()
    for _ in range(PODS):
        name = f"pod-{next(_numbers)}"
        pod = Running(admin, name, _some(random, name, classes))
        mine = ours.answers_to(pod.asked(ours))
        fitting = {node["metadata"]["name"]: answer for node, answer in zip(NODES, mine, strict=True)}
        if any(answer["kind"] == "stops" for answer in mine):
            fitting = {}
        fitting = {node: answer for node, answer in fitting.items() if answer["kind"] == "fits"}
        node, its = await pod.outcome()
        seen.add(node is not None)
        assert (node in fitting) if node else not fitting, f"{pod.value} on {node}: {mine}"
        if node:
            assert its["claims"] == fitting[node]["claims"], pod.value
            for claim, allocation in zip(pod.names, its["raw"], strict=True):
                ours.add(claim, allocation["devices"].get("results") or [])
            living.append(pod)
        else:
            await pod.end()
        if living and random.random() < 0.3:
            gone = living.pop(random.randrange(len(living)))
            await gone.end()
            for claim in gone.names:
                ours.remove(claim)
    for pod in living:
        await pod.end()
    assert seen == {True, False}


def _some(random: Random, name: str, classes: pods.Classes) -> list[Json]:
    """Claims, or for some pods a class whose devices the pod asks for as extended resources."""
    if random.random() < 0.2:
        return [{"class": random.choice(random.choice(list(classes.values()))), "count": random.choice([1, 1, 2])}]
    claims = pods.claims(random, 0, classes)
    for index, claim in enumerate(claims):
        claim["metadata"] = {"name": f"{name}-{index}", "namespace": "default"}
    return claims


class Running:
    """A pod that was made."""

    def __init__(self, admin: Admin, name: str, asked: list[Json]) -> None:
        self._admin = admin
        self._path = f"{_PODS}/{name}"
        self._extended = [f"{IMPLICIT}{one['class']}" for one in asked if "class" in one]
        self._claims = [one for one in asked if "class" not in one]
        refs = [{"name": f"c{index}"} for index in range(len(self._claims))]
        extended = {f"{IMPLICIT}{one['class']}": str(one["count"]) for one in asked if "class" in one}
        resources = {"claims": refs, "requests": extended, "limits": extended}
        claims = [
            {"name": f"c{index}", "resourceClaimName": claim["metadata"]["name"]}
            for index, claim in enumerate(self._claims)
        ]
        spec = {"resourceClaims": claims, "containers": [{"name": "main", "image": "none", "resources": resources}]}
        self.value: Json = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self.names = [claim["metadata"]["name"] for claim in self._claims]

    def asked(self, ours: Ours) -> list[Claim]:
        extended = ExtendedResources(ours.cluster.classes).claim(self.value, {})
        claims = {("default", one["metadata"]["name"]): one for one in self._claims}
        return claims_of_pod(self.value, claims) + ([extended] if extended else [])

    async def outcome(self) -> tuple[str | None, Answer]:
        """The node, and what the claims have; None: the scheduler has tried, and has found none."""
        for claim in self._claims:
            await self._admin.call("POST", _CLAIMS, claim)
        await self._admin.call("POST", _PODS, {key: self.value[key] for key in ("metadata", "spec")})
        pod: dict[str, Any] = {}

        async def is_decided() -> None:
            pod.update(await self._admin.call("GET", self._path))
            conditions = pod.get("status", {}).get("conditions", ())
            assert pod["spec"].get("nodeName") or any(one["type"] == "PodScheduled" for one in conditions)

        await eventually(is_decided)
        if not pod["spec"].get("nodeName"):
            return None, {}
        if self._extended:
            self.names = [pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]]
        claims = [await self._admin.call("GET", f"{_CLAIMS}/{name}") for name in self.names]
        return pod["spec"]["nodeName"], their_answer({"allocations": [one["status"]["allocation"] for one in claims]})

    async def end(self) -> None:
        """The claim that comes after it is proof for the scheduler that these have gone: it hears of all in turn."""
        await self._admin.call("DELETE", self._path, _AT_ONCE)
        for name in self.names:
            await self._admin.call("DELETE", f"{_CLAIMS}/{name}", absent=True)

        async def is_gone() -> None:
            for name in self.names:
                assert await self._admin.call("GET", f"{_CLAIMS}/{name}", absent=True) is None

        await eventually(is_gone)


async def publish(admin: Admin, slices: list[Json]) -> None:
    """In place of all others. A pod that gets the device of the last slice shows that the scheduler knows them all."""
    await admin.call("DELETE", _SLICES)
    for one in slices:
        await admin.call("POST", _SLICES, one)
    number = next(_numbers)
    pool = {"name": f"marker-{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _MARKER, "pool": pool, "allNodes": True, "devices": [{"name": "marker"}]}
    await admin.call("POST", _SLICES, {"metadata": {"name": f"marker-{number}"}, "spec": spec})
    requests = [{"name": "marker", "exactly": {"deviceClassName": "marker"}}]
    name = f"marker-{number}"
    claim = {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": requests}}}
    pod = Running(admin, name, [claim])

    async def is_bound() -> None:
        found = await admin.call("GET", f"{_PODS}/{name}")
        assert found["spec"].get("nodeName")

    await pod.outcome()
    await eventually(is_bound)
    await pod.end()
