"""The life of a release: installed, upgraded, rolled back, uninstalled, on a control plane of its own."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import pytest_asyncio

from gpusharing.api.crd import DEFINITIONS
from harness.commands import run
from harness.controlplane import ControlPlane
from harness.gpu_cluster import NAMESPACE
from manifests.monitoring_kinds import add_monitoring_kinds
from manifests.rendering import CHART, EXAMPLES, RELEASE, objects, templated

pytestmark = pytest.mark.cluster

Helm: TypeAlias = Callable[..., Awaitable[str]]
CRDS: Final = {definition.name for definition in DEFINITIONS}
POLICY: Final = {
    "apiVersion": "gpusharing.dev/v1alpha1",
    "kind": "SharingPolicy",
    "metadata": {"name": "quarters"},
    "spec": {"offers": {"timeSlicing": {"maxClients": 4}}},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(toolchain: Path) -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as server:
        await add_monitoring_kinds(server)
        # As the chart's README says.
        await server.kubectl("create", "namespace", NAMESPACE)
        await server.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=privileged")
        yield server


@pytest.fixture
def released(server: ControlPlane, helm: Path) -> Helm:
    async def call(*arguments: str | Path) -> str:
        common = [f"--kubeconfig={server.kubeconfig}", f"--namespace={NAMESPACE}"]
        return await run([helm, *arguments, *common])

    return call


async def spec(server: ControlPlane, workload: str) -> Any:
    return json.loads(await server.kubectl("get", workload, f"--namespace={NAMESPACE}", "--output=json"))["spec"]


async def present(server: ControlPlane) -> set[tuple[str, str]]:
    """What of ours is on the server, by the label that all of it has."""
    kinds = await server.kubectl("api-resources", "--verbs=list,delete", "--output=name")
    listed = await server.kubectl(
        "get", ",".join(kinds.split()), "--all-namespaces", "--selector=app.kubernetes.io/part-of=gpu-sharing",
        "--ignore-not-found", "--output=json",
    )  # fmt: skip
    items = json.loads(listed)["items"] if listed else []
    # Pods and their like are made of others, and go with them.
    return {(item["kind"], item["metadata"]["name"]) for item in items if not item["metadata"].get("ownerReferences")}


async def test_a_release_comes_changes_and_goes(server: ControlPlane, released: Helm, helm: Path) -> None:
    rendered = {(kind, name) for kind, _, name in objects(await templated(helm))}
    said = await released("install", RELEASE, CHART)
    assert "kubectl describe daemonset gpusharing-agent --namespace gpusharing-system" in said
    assert await present(server) == rendered
    await server.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in CRDS))
    await server.kubectl("apply", "--filename=-", stdin=json.dumps(POLICY))

    await released("upgrade", RELEASE, CHART, "--set=operator.replicas=3,networkPolicy.enabled=true")
    assert (await spec(server, "deployment/gpusharing-operator"))["replicas"] == 3
    assert await present(server) == rendered | {("NetworkPolicy", "gpusharing")}

    await released("rollback", RELEASE, "1")
    assert (await spec(server, "deployment/gpusharing-operator"))["replicas"] == 2
    assert await present(server) == rendered

    await released("uninstall", RELEASE, "--wait")
    assert await present(server) == {("CustomResourceDefinition", name) for name in CRDS}
    assert "quarters" in await server.kubectl("get", "sharingpolicies", "--output=name")

    # Over what was left; then without leaving it.
    await released("install", RELEASE, CHART, "--set=crds.keep=false")
    assert "quarters" in await server.kubectl("get", "sharingpolicies", "--output=name")
    await released("uninstall", RELEASE, "--wait")
    assert await present(server) == set()


async def test_what_the_operator_has_written_outlives_an_upgrade(server: ControlPlane, released: Helm) -> None:
    await released("install", RELEASE, CHART, "--set=crds.keep=false")
    guard = ("validatingadmissionpolicy", "gpusharing-allocation")
    as_installed = await variables(server, *guard)
    written = as_installed | {"tenants": "{'search': [['Exists', 'team']]}"}
    patch = {"spec": {"variables": [{"name": name, "expression": text} for name, text in written.items()]}}
    operator = await server.service_account_kubeconfig(NAMESPACE, "gpusharing-operator")
    await server.kubectl("patch", *guard, "--type=merge", f"--patch={json.dumps(patch)}", kubeconfig=operator)

    await released("upgrade", RELEASE, CHART, "--set=operator.replicas=1,crds.keep=false")
    assert (await spec(server, "deployment/gpusharing-operator"))["replicas"] == 1
    assert await variables(server, *guard) == written
    # What the operator writes after a second upgrade is not contested either.
    next(one for one in patch["spec"]["variables"] if one["name"] == "tenants")["expression"] = "{}"
    await server.kubectl("patch", *guard, "--type=merge", f"--patch={json.dumps(patch)}", kubeconfig=operator)
    await released("upgrade", RELEASE, CHART, "--set=crds.keep=false")

    # A rollback has the objects of then: what was written since has to be overruled, and the operator writes it again.
    await released("rollback", RELEASE, "1", "--force-conflicts")
    assert await variables(server, *guard) == as_installed
    await released("uninstall", RELEASE, "--wait")
    assert await present(server) == set()


async def variables(server: ControlPlane, kind: str, name: str) -> dict[str, str]:
    guard = json.loads(await server.kubectl("get", kind, name, "--output=json"))
    return {variable["name"]: variable["expression"] for variable in guard["spec"]["variables"]}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
async def test_every_example_can_be_tried_dry(released: Helm, example: Path) -> None:
    said = await released("install", "dry", CHART, f"--values={example}", "--dry-run=server")
    assert "STATUS: pending-install" in said
