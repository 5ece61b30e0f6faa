"""The real API server takes what conversions write, and makes the same of old DRA manifests by itself."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, NamedTuple

import pytest
import pytest_asyncio
import yaml

from converting.test_inputs import INPUTS, read
from gpusharing.api.crd import DEFINITIONS
from gpusharing.converting import dra
from gpusharing.converting.conversion import File, convert
from gpusharing.converting.documents import split
from gpusharing.findings.converting import NOT_CONVERTED
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.gpu_cluster import MANIFESTS

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

# Their definitions are the GPU operator's.
NOT_OURS: Final = "ClusterPolicy"
NAMESPACES: Final = ("a", "gpu-test4", "team")


class Converted(NamedTuple):
    """A document that a conversion has changed."""

    file: str
    before: str
    after: str
    objects: tuple[dict[str, Any], ...]


def changed() -> Iterator[Converted]:
    for path in INPUTS:
        for document in split(path.name, read(path)):
            (file,) = convert([File(path.name, document.body)]).files
            if file.text != document.body:
                objects = tuple(one for one in yaml.safe_load_all(file.text) if one)
                yield Converted(path.name, document.body, file.text, objects)


def whole() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Files without errors, after all of their documents were converted together."""
    for path in INPUTS:
        conversion = convert([File(path.name, read(path))])
        if not any(remark.entry is NOT_CONVERTED for remark in conversion.remarks):
            (file,) = conversion.files
            yield path.name, [one for one in yaml.safe_load_all(file.text) if one]


def name(value: object) -> str:
    return value if isinstance(value, str) else ""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(toolchain: Any) -> AsyncIterator[ControlPlane]:
    served = ",".join(f"{version}=true" for version in dra.VERSIONS)
    async with ControlPlane(runtime_config=served) as control_plane:
        await control_plane.kubectl("apply", f"--kustomize={MANIFESTS.parents[1] / 'crds'}")
        await control_plane.kubectl(
            "wait", "--for=condition=Established", *(f"crd/{definition.name}" for definition in DEFINITIONS)
        )
        for namespace in NAMESPACES:
            await control_plane.kubectl("create", "namespace", namespace)
        for namespace in (*NAMESPACES, "default"):
            label = "resource.kubernetes.io/admin-access=true"
            await control_plane.kubectl("label", "namespace", namespace, label)

            async def has_account(namespace: str = namespace) -> None:
                await control_plane.kubectl("get", "serviceaccount", "default", f"--namespace={namespace}")

            await eventually(has_account)
        yield control_plane


async def create(server: ControlPlane, body: Any, *options: str) -> Any:
    arguments = ("create", "--validate=strict", "--output=json", "--filename=-", *options)
    return json.loads(await server.kubectl(*arguments, stdin=body if isinstance(body, str) else json.dumps(body)))


@pytest.mark.parametrize(("file", "objects"), list(whole()), ids=name)
async def test_it_is_accepted(server: ControlPlane, file: str, objects: list[dict[str, Any]]) -> None:
    members = [one for item in objects for one in (item["items"] if item["kind"] == "List" else [item])]
    for one in members:
        if one["kind"] not in {NOT_OURS, "Namespace"} and one["apiVersion"] not in dra.VERSIONS:
            stored = await create(server, one, "--dry-run=server")
            assert stored["kind"] == one["kind"]


def of_former_versions() -> Iterator[Any]:
    for one in changed():
        former = yaml.safe_load(one.before)
        # Of the alpha, servers of today have other kinds.
        if former.get("apiVersion") in dra.VERSIONS[1:]:
            yield pytest.param(former, one.objects, id=f"{one.file} {former['kind']}")


async def as_v1(server: ControlPlane, former: dict[str, Any]) -> Any:
    """What the server makes of it. It is there for a moment only."""
    created = await create(server, former)
    metadata = created["metadata"]
    resource = f"{former['kind'].lower()}s.v1.resource.k8s.io".replace("classs", "classes")
    place = [f"--namespace={metadata['namespace']}"] if "namespace" in metadata else []
    try:
        return json.loads(await server.kubectl("get", resource, metadata["name"], *place, "--output=json"))
    finally:
        await server.kubectl("delete", resource, metadata["name"], *place, "--wait=false")


@pytest.mark.parametrize(("former", "objects"), list(of_former_versions()))
async def test_it_is_what_the_api_server_makes_of_it(
    server: ControlPlane, former: dict[str, Any], objects: tuple[dict[str, Any], ...]
) -> None:
    (ours,) = objects
    theirs = await as_v1(server, former)
    found = await create(server, ours, "--dry-run=server")
    assert found["spec"] == _with_new_configs(theirs["spec"], found["spec"])


def _with_new_configs(theirs: Any, ours: Any) -> Any:
    """The server leaves opaque parameters alone, and says of a taint when it was added: at another second, perhaps."""
    if isinstance(theirs, dict):
        return {
            key: ours[key] if key in {"opaque", "timeAdded"} else _with_new_configs(value, ours.get(key))
            for key, value in theirs.items()
        }
    if isinstance(theirs, list) and isinstance(ours, list):
        return [_with_new_configs(*pair) for pair in zip(theirs, ours, strict=True)]
    return theirs
