"""The page in the cluster: what its pod may do is what anybody may do, and it understands its flags."""

import argparse
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from gpusharing.cli.ui_server import command
from gpusharing.ui.heads import LARGEST_HEAD
from gpusharing.ui.viewers import identities, readings, sessions
from gpusharing.ui.viewers import server as viewers
from harness.controlplane import ControlPlane
from harness.gpu_cluster import NAMESPACE
from manifests.rendering import ROOT, Objects, kustomized, objects, only, with_all_components
from manifests.test_workloads import parsed

pytestmark = pytest.mark.cluster

NAME: Final = "gpusharing-ui"
KUSTOMIZATION, INGRESS = re.findall(
    r"^```yaml\n(.*?)^```$", (ROOT / "docs/ui.md").read_text(), re.DOTALL | re.MULTILINE
)
"""Of the page."""


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def found(toolchain: Path, tmp_path_factory: pytest.TempPathFactory) -> Objects:
    return objects(await kustomized(toolchain / "kubectl", with_all_components(tmp_path_factory.mktemp("all"))))


def pod(found: Objects) -> Any:
    return only(found, "Deployment", NAME)["spec"]["template"]


async def rights(control_plane: ControlPlane, account: str) -> str:
    """In its own namespace, and in the cluster."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")
    as_account = [f"--as=system:serviceaccount:{NAMESPACE}:{account}", *(f"--as-group={group}" for group in groups)]
    return await control_plane.kubectl("auth", "can-i", "--list", f"--namespace={NAMESPACE}", *as_account)


async def test_it_may_do_what_anybody_may_do(installed: ControlPlane, found: Objects) -> None:
    kinds = {kind for kind, _, name in found if name == NAME}
    assert kinds == {"ServiceAccount", "Service", "Deployment", "NetworkPolicy"}
    bindings = [item for (kind, _, _), item in found.items() if kind.endswith("RoleBinding")]
    assert [item for item in bindings if NAME in json.dumps(item)] == []
    listed = await rights(installed, NAME)
    assert "selfsubjectreviews" in listed
    assert sorted(listed.splitlines()) == sorted((await rights(installed, "anybody")).splitlines())
    assert await rights(installed, "gpusharing-operator") != listed


def test_it_has_no_token(found: Objects) -> None:
    assert only(found, "ServiceAccount", NAME)["automountServiceAccountToken"] is False
    spec = pod(found)["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["volumes"] == [{"name": "authority", "configMap": {"name": "kube-root-ca.crt"}}]


async def test_a_namespace_with_the_strictest_rules_takes_its_pod(installed: ControlPlane, found: Objects) -> None:
    strict = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": strict}}
    await installed.kubectl("apply", "--filename=-", stdin=json.dumps(namespace))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": "strict"}}
    await installed.kubectl("apply", "--filename=-", stdin=json.dumps(account))
    metadata = {"name": "page", "namespace": "strict"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod(found)["spec"]}
    said = await installed.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(body))
    assert said == "pod/page created (server dry run)\n"


def parsed_by_pod(container: Any) -> argparse.Namespace:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        patch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
        return parsed(command, container)


def test_it_understands_its_flags_and_ports_are_named(found: Objects) -> None:
    [container] = pod(found)["spec"]["containers"]
    arguments = parsed_by_pod(container)
    [port] = container["ports"]
    assert arguments.port == port["containerPort"]
    assert arguments.api_server == "https://10.0.0.1:443"
    [mount] = container["volumeMounts"]
    assert arguments.certificate_authority == Path(mount["mountPath"]) / "ca.crt"
    assert {container[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {
        port["name"]
    }
    assert only(found, "Service", NAME)["spec"]["ports"][0]["targetPort"] == port["name"]


async def test_the_page_says_how_it_gets_a_name(toolchain: Path, installed: ControlPlane, tmp_path: Path) -> None:
    up = "../" * (len(tmp_path.parts) - 1) + str(ROOT.relative_to("/"))
    (tmp_path / "kustomization.yaml").write_text(KUSTOMIZATION.replace("[manifests/", f"[{up}/manifests/"))
    found = objects(await kustomized(toolchain / "kubectl", tmp_path))
    [container] = pod(found)["spec"]["containers"]
    assert parsed_by_pod(container).host == ["gpus.example.com"]
    said = await installed.kubectl("apply", "--dry-run=server", "--validate=strict", "--filename=-", stdin=INGRESS)
    assert said == f"ingress.networking.k8s.io/{NAME} created (server dry run)\n"
    [rule] = yaml.safe_load(INGRESS)["spec"]["rules"]
    service = rule["http"]["paths"][0]["backend"]["service"]
    [port] = only(found, "Service", service["name"])["spec"]["ports"]
    assert service["port"]["name"] == port["name"]


def test_numbers_of_the_page_are_those_of_the_code() -> None:
    text = " ".join((ROOT / "docs/ui.md").read_text().split())
    bounds = (
        f"{parsed_by_pod({'command': ['gpusharing', 'ui-server']}).viewers} people at a time (`--viewers`), "
        f"{readings.MOST_OF_ONE} readings and {sessions.MOST_OF_ONE} browsers of each user, "
        f"{readings.STREAMS} open pages and {readings.ANSWERS} answers at a time of each reading, "
        f"{viewers.LARGEST_FORM // 1024} KiB of policies, {viewers.FORM_OF_STRANGERS // 1024} KiB before signing in, "
        f"{LARGEST_HEAD // 1024} KiB of headers"
    )
    assert bounds in text
    assert (sessions.LONGEST, sessions.IDLE, identities.ASKED_EVERY, readings.IDLE) == (8 * 3600, 3600, 60, 600)


def test_its_network_policy_is_for_it_alone(found: Objects) -> None:
    spec = only(found, "NetworkPolicy", NAME)["spec"]
    assert spec["podSelector"] == only(found, "Deployment", NAME)["spec"]["selector"]
    assert pod(found)["metadata"]["labels"].items() >= spec["podSelector"]["matchLabels"].items()
    assert [rule["ports"] for rule in spec["ingress"]] == [[{"port": "http", "protocol": "TCP"}]]
    ports = [{"port": port, "protocol": "TCP"} for port in (443, 6443)]
    assert spec["egress"] == [{"ports": ports}]
