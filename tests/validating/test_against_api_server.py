"""The real API server, with our guards, takes what we have no findings for, and refuses all else."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio

from controller.bed import Operator, install
from gpusharing.findings import validating
from gpusharing.findings.finding import Severity
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from gpusharing.validating.reading import documents
from gpusharing.validating.validation import Source, validate
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

CASES: Final = Path(__file__).parent / "cases"
PLURALS: Final = {
    "SharingPolicy": "sharingpolicies",
    "NodeSharing": "nodesharings",
    "DeviceClass": "deviceclasses",
    "ResourceClaim": "namespaces/{namespace}/resourceclaims",
    "ResourceClaimTemplate": "namespaces/{namespace}/resourceclaimtemplates",
    "Pod": "namespaces/{namespace}/pods",
}
LATER: Final = frozenset({validating.INVALID_CONFIG.code})
"""NVIDIA's decoder comes later than the API server."""
OF_SELECTORS: Final = frozenset({validating.INVALID_SELECTOR.code, validating.COSTLY_SELECTOR.code})
"""Selectors of policies are for the operator to refuse."""


class Server:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def refusal(self, value: Mapping[str, Any], *, namespace: str = "default") -> str | None:
        """What it says against the object, in a dry run; None: nothing."""
        root = "api" if "/" not in value["apiVersion"] else "apis"
        plural = PLURALS.get(value["kind"], "unknown").format(namespace=value["metadata"].get("namespace") or namespace)
        url = f"{self._url}/{root}/{value['apiVersion']}/{plural}?dryRun=All&fieldValidation=Strict"
        body = json.dumps(value, separators=(",", ":"))
        async with self._session.post(url, data=body, headers={"Content-Type": "application/json"}) as it:
            text = await it.text()
            assert it.status in {201, 400, 403, 404, 422}, text
            return None if it.status == 201 else text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control_plane_with_guards(toolchain: Path) -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        async with await Operator.of(control_plane):
            yield control_plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(control_plane_with_guards: ControlPlane) -> AsyncIterator[Server]:
    credentials = await client_credentials.load(control_plane_with_guards.kubeconfig)
    async with open_session(credentials) as session:
        yield Server(session, credentials.server)


@pytest.mark.parametrize("name", ["policies", "claims"])
async def test_what_we_find_the_server_refuses(server: Server, name: str) -> None:
    different: list[str] = []
    for number, text in enumerate((CASES / f"{name}.yaml").read_text().split("\n---\n")):
        (document,) = documents(text)
        found = validate([Source(name, text.encode())]).findings
        is_policy = document.value["kind"] == "SharingPolicy"
        ours = {one.finding.code for one in found if one.finding.entry.severity is Severity.ERROR}
        ours -= LATER | (OF_SELECTORS if is_policy else frozenset())
        theirs = await server.refusal(document.value)
        if bool(ours) != bool(theirs):
            different.append(f"document {number}, {document.value['metadata']}: we say {ours}, they say {theirs}")
    assert not different, "\n".join(different)


async def test_each_problem_alone_is_one_to_the_server(server: Server) -> None:
    """A finding must not hide behind another one in the same document: what is wrong is taken out but for one."""
    different: list[str] = []
    for path, value, sound in ALONE:
        found = validate([Source("f", json.dumps(value).encode())]).findings
        theirs = await server.refusal(value)
        if bool(theirs) == sound or bool(found) == sound:
            different.append(f"{path}: {'sound' if sound else 'not sound'}; we say {found}, they say {theirs}")
    assert not different, "\n".join(different)


async def test_guards_refuse_what_we_find(control_plane_with_guards: ControlPlane, server: Server) -> None:
    path = CASES / "guards.yaml"
    given = [document.value for document in documents(path.read_text())]
    installed = [value for value in given if value["kind"] in {"SharingPolicy", "Namespace"}]
    text = "\n---\n".join(json.dumps(value) for value in installed)
    await control_plane_with_guards.kubectl("apply", "--filename=-", stdin=text)
    refused = {
        (one.finding.object.kind, one.finding.object.namespace, one.finding.object.name)
        for one in validate([Source(path.name, path.read_bytes())]).findings
    }
    asked = [value for value in given if value not in installed and value["kind"] in PLURALS]

    async def agreed() -> None:
        for value in asked:
            metadata = value["metadata"]
            ours = (value["kind"], metadata.get("namespace", ""), metadata["name"]) in refused
            # Of those whose namespace nobody knows, the server is asked for a tenant.
            theirs = await server.refusal(value, namespace="search")
            assert ours == (theirs is not None and "forbidden" in theirs), f"{metadata}: {theirs}"

    await eventually(agreed)


def claim(**devices: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "a"}}], **devices}},
    }


def exactly(**more: Any) -> dict[str, Any]:
    return claim(requests=[{"name": "gpu", "exactly": {"deviceClassName": "a", **more}}])


def selected(expression: str) -> dict[str, Any]:
    return exactly(selectors=[{"cel": {"expression": expression}}])


def tolerating(**toleration: Any) -> dict[str, Any]:
    return exactly(tolerations=[toleration])


def configured(**opaque: Any) -> dict[str, Any]:
    return claim(config=[{"opaque": {"driver": "example.com", "parameters": {}, **opaque}}])


def named(**metadata: Any) -> dict[str, Any]:
    return {**claim(), "metadata": {"name": "c", **metadata}}


def a_class(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": spec}


def a_policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpusharing.dev/v1alpha1",
        "kind": "SharingPolicy",
        "metadata": {"name": "p"},
        "spec": {"offers": {"exclusive": {}}, **spec},
    }


_MANY = [{"name": f"r{number}", "exactly": {"deviceClassName": "a"}} for number in range(33)]

# What it is, the object, and whether it is sound.
ALONE: Final = (
    ("nothing wrong", claim(), True),
    ("32 requests", claim(requests=_MANY[:32]), True),
    ("33 requests", claim(requests=_MANY), False),
    ("no requests", claim(requests=[]), True),
    ("requests null", claim(requests=None), True),
    ("a claim without spec", {**claim(), "spec": {}}, True),
    ("the same name twice", claim(requests=[_MANY[0], _MANY[0]]), False),
    ("no name", claim(requests=[{"exactly": {"deviceClassName": "a"}}]), False),
    ("neither exactly nor firstAvailable", claim(requests=[{"name": "a"}]), False),
    ("an empty firstAvailable", claim(requests=[{"name": "a", "firstAvailable": []}]), False),
    ("8 alternatives", claim(requests=[{"name": "a", "firstAvailable": [
        {"name": f"a{number}", "deviceClassName": "a"} for number in range(8)]}]), True),
    ("9 alternatives", claim(requests=[{"name": "a", "firstAvailable": [
        {"name": f"a{number}", "deviceClassName": "a"} for number in range(9)]}]), False),
    ("adminAccess of an alternative", claim(requests=[{"name": "a", "firstAvailable": [
        {"name": "a", "deviceClassName": "a", "adminAccess": True}]}]), False),
    ("no class", claim(requests=[{"name": "a", "exactly": {}}]), False),
    ("an empty mode", exactly(allocationMode=""), True),
    ("another mode", exactly(allocationMode="One"), False),
    ("count 0", exactly(count=0), True),
    ("count -1", exactly(count=-1), False),
    ("All with a count", exactly(allocationMode="All", count=1), False),
    ("All with count 0", exactly(allocationMode="All", count=0), True),
    ("count as text", exactly(count="1"), False),
    ("an unknown field", exactly(classname="a"), False),
    ("a selector", selected("device.driver == 'a'"), True),
    ("no selector", selected("device.driver"), False),
    ("an empty selector", exactly(selectors=[{"cel": {}}]), False),
    ("a selector without cel", exactly(selectors=[{}]), False),
    ("33 selectors", exactly(selectors=[{"cel": {"expression": "true"}}] * 33), False),
    ("a costly selector", selected("lists.range(249998).all(x, true)"), False),
    ("a toleration", tolerating(operator="Exists"), True),
    ("17 tolerations", exactly(tolerations=[{"operator": "Exists"}] * 17), True),
    ("no operator", tolerating(key="a"), True),
    ("a value of Exists", tolerating(operator="Exists", value="a"), False),
    ("a wrong key", tolerating(operator="Exists", key="a b"), False),
    ("a wrong value", tolerating(operator="Equal", value="a b"), False),
    ("effect None", tolerating(operator="Exists", effect="None"), True),
    ("another effect", tolerating(operator="Exists", effect="Never"), False),
    ("an amount", exactly(capacity={"requests": {"memory": "1Gi"}}), True),
    ("a number as amount", exactly(capacity={"requests": {"memory": 1.5}}), True),
    ("no amount", exactly(capacity={"requests": {"memory": "1 Gi"}}), False),
    ("an empty amount", exactly(capacity={"requests": {"memory": ""}}), False),
    ("any name of a capacity", exactly(capacity={"requests": {"a b/c/d": "1"}}), True),
    ("a constraint", claim(constraints=[{"matchAttribute": "a.b/c"}]), True),
    ("an empty constraint", claim(constraints=[{}]), False),
    ("both in a constraint", claim(constraints=[{"matchAttribute": "a/b", "distinctAttribute": "a/b"}]), True),
    ("no domain", claim(constraints=[{"matchAttribute": "a"}]), False),
    ("an upper-case domain", claim(constraints=[{"matchAttribute": "A.b/c"}]), False),
    ("two slashes", claim(constraints=[{"matchAttribute": "a/b/c"}]), True),
    ("a long name", claim(constraints=[{"matchAttribute": f"a/{'b' * 33}"}]), False),
    ("an unknown request", claim(constraints=[{"matchAttribute": "a/b", "requests": ["b"]}]), False),
    ("a request twice", claim(constraints=[{"matchAttribute": "a/b", "requests": ["gpu", "gpu"]}]), False),
    ("a config", configured(), True),
    ("no opaque", claim(config=[{}]), False),
    ("no driver", configured(driver=""), False),
    ("an upper-case driver", configured(driver="A.example.com"), True),
    ("a wrong driver", configured(driver="a b"), False),
    ("parameters null", configured(parameters=None), False),
    ("parameters of text", configured(parameters="a"), False),
    ("large parameters", configured(parameters={"a": "b" * 10 * 1024}), False),
    ("parameters just small enough", configured(parameters={"a": "b" * (10 * 1024 - 8)}), True),
    ("a label", named(labels={"a.b/c": "D_1"}), True),
    ("a wrong label", named(labels={"a/b/c": ""}), False),
    ("a wrong value of a label", named(labels={"a": "-"}), False),
    ("an annotation", named(annotations={"A.b/c": "anything at all"}), True),
    ("a wrong annotation", named(annotations={"a b": ""}), False),
    ("annotations of numbers", named(annotations={"a": 1}), False),
    ("large annotations", named(annotations={"a": "b" * 256 * 1024}), False),
    ("generateName", {**claim(), "metadata": {"generateName": "a-"}}, True),
    ("no name of the claim", {**claim(), "metadata": {}}, False),
    ("an upper-case name", named(name="A"), False),
    ("a long name of the claim", named(name="a" * 254), False),
    ("unknown metadata", named(nope=1), False),
    ("an empty class", a_class(), True),
    ("an extended resource", a_class(extendedResourceName="a.b/c"), True),
    ("an empty extended resource", a_class(extendedResourceName=""), False),
    ("one of Kubernetes", a_class(extendedResourceName="a.kubernetes.io/c"), False),
    ("one of a quota", a_class(extendedResourceName="requests.a/c"), False),
    ("requests of a class's config", a_class(config=[{"requests": [], "opaque": {
        "driver": "a", "parameters": {}}}]), False),
    ("a policy", a_policy(), True),
    ("a whole number as float", a_policy(priority=1.0), True),
    ("half a priority", a_policy(priority=1.5), False),
    ("priority as text", a_policy(priority="1"), False),
    ("priority null", a_policy(priority=None), True),
    ("tenants null", a_policy(tenants=None), True),
    ("a tenant's label null", a_policy(tenants={"namespaces": {"matchLabels": {"a": None}}}), True),
    ("null in a list", a_policy(tenants={"allow": {"intervals": [None]}}), False),
    ("33 selectors of a policy", a_policy(gpus={"selectors": [{"cel": {"expression": "true"}}] * 33}), False),
    ("an empty expression", a_policy(gpus={"selectors": [{"cel": {"expression": ""}}]}), False),
    ("a layout of nothing", a_policy(offers={"mig": {"layout": {}}}), False),
    ("a layout", a_policy(offers={"mig": {"layout": {"1g.10gb": 1}}}), True),
    ("a layout and more", a_policy(offers={"mig": {"layout": {"1g.10gb": 1}}, "exclusive": {}}), False),
    ("profiles twice", a_policy(offers={"mig": {"profiles": ["1g.10gb", "1g.10gb"]}}), False),
    ("no profile", a_policy(offers={"mig": {"profiles": ["small"]}}), False),
    ("an extended resource of a policy", a_policy(classes={"extendedResources": {"mps": "a.kubernetes.io/b"}}), False),
    ("values of Exists", a_policy(nodes={"matchExpressions": [
        {"key": "a", "operator": "Exists", "values": ["b"]}]}), False),
    ("an unknown field of a policy", a_policy(offer={}), False),
    ("metadata of a policy", {**a_policy(), "metadata": {"name": "p", "labels": {"a": "b c"}}}, False),
)  # fmt: skip
