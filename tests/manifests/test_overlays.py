"""The overlays and components of manifests/: accepted by the API server, and each what it is for."""

from pathlib import Path
from typing import Any

import pytest

from harness.controlplane import ControlPlane
from harness.gpu_cluster import MANIFESTS
from manifests.rendering import COMPONENTS, OVERLAYS, Objects, kustomized, objects, only, with_all_components

# Those that add objects; the others change those of base.
STANDALONE = [component for component in COMPONENTS if "resources:" in (component / "kustomization.yaml").read_text()]

pytestmark = pytest.mark.cluster


async def overlay(toolchain: Path, name: str) -> Objects:
    (directory,) = (path for path in OVERLAYS if path.name == name)
    return objects(await kustomized(toolchain / "kubectl", directory))


async def agent(toolchain: Path, name: str) -> Any:
    return only(await overlay(toolchain, name), "DaemonSet", "gpusharing-agent")["spec"]["template"]["spec"]


@pytest.mark.parametrize("directory", [*OVERLAYS, *STANDALONE], ids=lambda path: path.name)
async def test_the_api_server_accepts_it(installed: ControlPlane, monitoring_kinds: None, directory: Path) -> None:
    # On top of base, as it is there: what only an overlay or component has is new.
    said = await installed.kubectl("apply", "--dry-run=server", "--validate=strict", "--kustomize", directory)
    rendered = objects(await kustomized(installed.programs / "kubectl", directory))
    assert len(said.splitlines()) == len(rendered)


async def test_all_components_go_together(installed: ControlPlane, monitoring_kinds: None, tmp_path: Path) -> None:
    everything = with_all_components(tmp_path)
    said = await installed.kubectl("apply", "--dry-run=server", "--validate=strict", "--kustomize", everything)
    assert "podmonitor.monitoring.coreos.com/gpusharing created" in said
    assert "networkpolicy.networking.k8s.io/gpusharing created" in said
    rendered = objects(await kustomized(installed.programs / "kubectl", everything))
    assert "extendedResourceName" not in only(rendered, "DeviceClass", "gpu.nvidia.com")["spec"]


async def test_every_object_says_what_it_belongs_to(toolchain: Path, tmp_path: Path) -> None:
    for directory in (*OVERLAYS, with_all_components(tmp_path)):
        for name, item in objects(await kustomized(toolchain / "kubectl", directory)).items():
            assert item["metadata"]["labels"]["app.kubernetes.io/part-of"] == "gpu-sharing", (directory, name)


async def test_a_simulated_node_is_made_where_the_agent_looks_for_it(toolchain: Path) -> None:
    spec = await agent(toolchain, "simulated")
    (maker,), (container,) = spec["initContainers"], spec["containers"]
    directory = maker["command"][-1]
    roots = [argument.split("=")[1] for argument in container["args"] if "-root=" in argument]
    assert [root for root in roots if root != "/var/lib/kubelet"] == [
        directory,
        f"{directory}/dev",
        f"{directory}/proc",
        f"{directory}/sys",
    ]
    for writer in (maker, container):
        (mount,) = (mount for mount in writer["volumeMounts"] if mount["mountPath"] == directory)
        assert not mount.get("readOnly", False)
        assert mount["name"] == "driver-root"
    assert spec["nodeSelector"] == {"gpusharing.dev/simulated": "true"}
    assert "affinity" not in spec


@pytest.mark.parametrize("name", [path.name for path in OVERLAYS])
async def test_logs_are_the_agents_if_no_container_is_named(toolchain: Path, name: str) -> None:
    """Of several, kubectl takes the first one and says so each time."""
    found = only(await overlay(toolchain, name), "DaemonSet", "gpusharing-agent")["spec"]["template"]
    default = found["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"]
    assert default in {container["name"] for container in found["spec"]["containers"]} == {"agent"}


@pytest.mark.parametrize("name", ["gpu-operator", "openshift"])
async def test_nvidias_driver_manager_can_send_the_agent_away(toolchain: Path, name: str) -> None:
    spec = await agent(toolchain, name)
    assert spec["nodeSelector"] == {"nvidia.com/dra-kubelet-plugin": "true"}
    assert "affinity" not in spec


async def test_on_gke_the_priority_classes_are_allowed(toolchain: Path) -> None:
    found = await overlay(toolchain, "gke")
    used = {
        only(found, kind, name)["spec"]["template"]["spec"]["priorityClassName"]
        for kind, name in (("DaemonSet", "gpusharing-agent"), ("Deployment", "gpusharing-operator"))
    }
    (scope,) = only(found, "ResourceQuota", "gpusharing-priority-classes")["spec"]["scopeSelector"]["matchExpressions"]
    assert scope["scopeName"] == "PriorityClass"
    assert set(scope["values"]) == used


async def test_on_gke_the_state_is_where_programs_run(toolchain: Path) -> None:
    """The same directory in the container and on the host; everything else as in base."""
    (container,) = (spec := await agent(toolchain, "gke"))["containers"]
    base = only(objects(await kustomized(toolchain / "kubectl", MANIFESTS)), "DaemonSet", "gpusharing-agent")
    (in_base,) = base["spec"]["template"]["spec"]["containers"]
    there = "/home/kubernetes/bin/gpusharing"
    assert container["args"] == [one.replace("/var/lib/gpusharing", there) for one in in_base["args"]]
    (mount,) = (one for one in container["volumeMounts"] if one["name"] == "state")
    (volume,) = (one for one in spec["volumes"] if one["name"] == "state")
    assert mount["mountPath"] == volume["hostPath"]["path"] == there
    assert {one["mountPath"] for one in container["volumeMounts"]} - {there} == {
        one["mountPath"] for one in in_base["volumeMounts"]
    } - {"/var/lib/gpusharing"}


async def test_on_openshift_each_account_has_its_constraints(toolchain: Path) -> None:
    found = await overlay(toolchain, "openshift")
    bound = {
        item["subjects"][0]["name"]: item["roleRef"]["name"]
        for (kind, _, _), item in found.items()
        if kind == "RoleBinding" and "scc" in item["roleRef"]["name"]
    }
    assert bound == {
        "gpusharing-agent": "system:openshift:scc:privileged",
        "gpusharing-operator": "system:openshift:scc:nonroot-v2",
    }
    namespace = only(found, "Namespace", "gpusharing-system")["metadata"]
    assert namespace["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert namespace["annotations"]["openshift.io/node-selector"] == ""
