"""The Helm chart: the same objects as manifests/ has, and values that are checked."""

import copy
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gpusharing import __version__
from harness.commands import CommandError, run
from harness.controlplane import ControlPlane
from harness.gpu_cluster import MANIFESTS, NAMESPACE
from manifests.rendering import (
    CHART,
    EXAMPLES,
    OVERLAYS,
    RELEASE,
    Objects,
    kustomized,
    objects,
    only,
    templated,
    with_all_components,
)

pytestmark = pytest.mark.cluster

COUNTERPARTS: Final = {
    "base": (),
    **{overlay.name: (f"--values={CHART}/examples/{overlay.name}.yaml",) for overlay in OVERLAYS},
    "components": (f"--values={CHART}/examples/components.yaml",),
}
# Helm's own, by which it knows what belongs to a release.
OF_HELM: Final = {"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": f"gpu-sharing-{__version__}"}


def without_what_is_helms(found: Objects) -> dict[Any, Any]:
    plain = copy.deepcopy(dict(found))
    for item in plain.values():
        metadata = item["metadata"]
        assert metadata["labels"].items() >= OF_HELM.items(), metadata
        for label in OF_HELM:
            del metadata["labels"][label]
        if item["kind"] == "CustomResourceDefinition":
            assert metadata.pop("annotations") == {"helm.sh/resource-policy": "keep"}
    return plain


def test_every_example_has_a_counterpart() -> None:
    assert {path.stem for path in EXAMPLES} == COUNTERPARTS.keys() - {"base"}


@pytest.mark.parametrize("name", COUNTERPARTS)
async def test_kustomize_and_helm_make_the_same_objects(toolchain: Path, helm: Path, tmp_path: Path, name: str) -> None:
    directory = {
        "base": MANIFESTS,
        "components": with_all_components(tmp_path),
        **{overlay.name: overlay for overlay in OVERLAYS},
    }[name]
    by_kustomize = dict(objects(await kustomized(toolchain / "kubectl", directory)))
    by_helm = without_what_is_helms(objects(await templated(helm, *COUNTERPARTS[name])))
    # Its own namespace is no part of a chart; the README says which labels it has to have.
    namespace = by_kustomize.pop(("Namespace", "", NAMESPACE))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert by_helm.keys() == by_kustomize.keys()
    for key, item in by_kustomize.items():
        assert by_helm[key] == item, key


async def test_another_namespace_is_used_throughout(helm: Path) -> None:
    everything = [f"--values={example}" for example in EXAMPLES]
    rendered = await templated(helm, *everything, namespace="gpus")
    assert NAMESPACE not in rendered
    assert "system:serviceaccount:gpus:gpusharing-agent" in rendered
    assert "--lease-namespace=gpus" in rendered
    # The API servers' own Leases and EndpointSlices are read where they are.
    assert {namespace for _, namespace, _ in objects(rendered)} == {"", "gpus", "default", "kube-system"}


@pytest.mark.parametrize("example", [None, *EXAMPLES], ids=lambda path: path.stem if path else "default")
async def test_lint(helm: Path, example: Path | None) -> None:
    values = [f"--values={example}"] if example else []
    said = await run([helm, "lint", "--strict", CHART, f"--namespace={NAMESPACE}", *values])
    assert "1 chart(s) linted, 0 chart(s) failed" in said


@pytest.mark.parametrize("example", [None, *EXAMPLES], ids=lambda path: path.stem if path else "default")
async def test_the_api_server_accepts_it(
    installed: ControlPlane, monitoring_kinds: None, helm: Path, example: Path | None
) -> None:
    rendered = await templated(helm, *([f"--values={example}"] if example else []))
    said = await installed.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "--server-side", "--force-conflicts", "--filename=-",
        stdin=rendered,
    )  # fmt: skip
    assert len(said.splitlines()) == len(objects(rendered))


async def test_values_reach_the_programs(helm: Path, tmp_path: Path) -> None:
    values = {
        "image": {"repository": "registry.example/gpusharing", "tag": "", "digest": f"sha256:{'a' * 64}"},
        "imagePullSecrets": [{"name": "pull"}],
        "nvidiaDriverRoot": "/opt/driver",
        "operator": {"replicas": 1, "extraArgs": ["--lease-duration=30", "--idle-wait=60"]},
        "agent": {
            "kubeletRoot": "/var/lib/k0s/kubelet",
            "extraArgs": ["--menus=2", "--taken-wait=30"],
            "updateStrategy": {"type": "OnDelete", "rollingUpdate": None},
            "resources": {"limits": {"memory": "1Gi"}},
        },
        "monitoring": {"podMonitor": {"enabled": True}, "labels": {"release": "prometheus"}},
        "ui": {
            "enabled": True,
            "hosts": ["gpus.example.com"],
            "tlsSecretName": "page",
            "extraArgs": ["--viewers=4"],
            "from": [{"podSelector": {"matchLabels": {"app": "proxy"}}}],
        },
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    found = objects(await templated(helm, f"--values={tmp_path}/values.yaml"))
    agent = only(found, "DaemonSet", "gpusharing-agent")["spec"]
    operator = only(found, "Deployment", "gpusharing-operator")["spec"]
    image = f"registry.example/gpusharing@sha256:{'a' * 64}"
    for pod in (agent["template"]["spec"], operator["template"]["spec"]):
        assert pod["containers"][0]["image"] == image
        assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert operator["replicas"] == 1
    assert operator["template"]["spec"]["containers"][0]["args"][1:] == ["--lease-duration=30", "--idle-wait=60"]
    assert agent["updateStrategy"] == {"type": "OnDelete"}
    container = agent["template"]["spec"]["containers"][0]
    assert container["args"][-2:] == ["--menus=2", "--taken-wait=30"]
    assert container["resources"] == {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in agent["template"]["spec"]["volumes"]}
    assert paths["driver-root"] == "/opt/driver"
    # The kubelet is given the path of a socket: it has to be the same on both sides.
    assert mounted["plugins"] == paths["plugins"] == "/var/lib/k0s/kubelet/plugins"
    assert mounted["plugins-registry"] == paths["plugins-registry"] == "/var/lib/k0s/kubelet/plugins_registry"
    assert "--kubelet-root=/var/lib/k0s/kubelet" in container["args"]
    assert only(found, "PodMonitor", "gpusharing")["metadata"]["labels"]["release"] == "prometheus"
    page = only(found, "Deployment", "gpusharing-ui")["spec"]["template"]["spec"]
    [container] = page["containers"]
    assert container["image"] == image
    assert container["args"] == ["--host=gpus.example.com", "--tls=/tls", "--viewers=4"]
    assert container["volumeMounts"][1] == {"name": "tls", "mountPath": "/tls", "readOnly": True}
    assert page["volumes"][1] == {"name": "tls", "secret": {"secretName": "page"}}
    assert {container[probe]["httpGet"]["scheme"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {
        "HTTPS"
    }
    assert only(found, "Service", "gpusharing-ui")["spec"]["ports"][0]["port"] == 443
    peers = only(found, "NetworkPolicy", "gpusharing-ui")["spec"]["ingress"][0]["from"]
    assert peers == [{"podSelector": {"matchLabels": {"app": "proxy"}}}]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ("operator.replicas=0", "at '/operator/replicas': minimum: got 0, want 1"),
        ("agent.toleration=x", "at '/agent': additional properties 'toleration' not allowed"),
        ("kubeletPlugin.enabled=true", "at '': additional properties 'kubeletPlugin' not allowed"),
        ("nvidiaDriverRoot=opt/driver", "at '/nvidiaDriverRoot': 'opt/driver' does not match pattern"),
        ("image.digest=latest", "at '/image/digest': 'latest' does not match pattern"),
        ("simulated.gpus=H100 twice", "at '/simulated/gpus': 'H100 twice' does not match pattern"),
        ("networkPolicy.apiServerPorts={0}", "at '/networkPolicy/apiServerPorts/0': minimum: got 0, want 1"),
        ("guards.namespaces.enabled=maybe", "at '/guards/namespaces/enabled': got string, want boolean"),
        (
            "simulated.enabled=true,nvidiaDriverRoot=/opt",
            "simulated.enabled and nvidiaDriverRoot: agents use either simulated GPUs or a driver of the host",
        ),
        (
            f"image.digest=sha256:{'0' * 64}",
            'image.tag and image.digest: an image has one of them: set image.tag to ""',
        ),
        ("simulated.image.tag=", "simulated.image: set simulated.image.tag or simulated.image.digest"),
        (
            "agent.updateStrategy.rollingUpdate.maxSurge=25%",
            "agent.updateStrategy.rollingUpdate.maxSurge: 25% agents more on a node would never become ready",
        ),
        (
            "ui.hosts={https://gpus.example.com/}",
            "at '/ui/hosts/0': 'https://gpus.example.com/' does not match pattern",
        ),
        ("ui.extraArgs={--host=a}", "ui.extraArgs: --host is a flag that the chart sets itself"),
        ("agent.extraArgs={--driver-root=/}", "agent.extraArgs: --driver-root is a flag that the chart sets itself"),
    ],
)
async def test_what_cannot_be_right_is_refused(helm: Path, values: str, says: str) -> None:
    with pytest.raises(CommandError, match=re.escape(says)):
        await templated(helm, "--set", values)


async def test_the_default_namespace_is_refused(helm: Path) -> None:
    with pytest.raises(CommandError, match="the agent is privileged, so the chart needs a namespace of its own"):
        await templated(helm, namespace="default")


def test_an_older_kubernetes_is_refused() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == ">=1.36.0-0"


def test_versions_are_one() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    labels = yaml.safe_load((MANIFESTS.parent / "labels" / "kustomization.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
    assert labels["labels"][0]["pairs"]["app.kubernetes.io/version"] == __version__
    assert labels["labels"][0]["pairs"]["app.kubernetes.io/instance"] == RELEASE


def keys(value: Any, path: str = "") -> set[str]:
    """Of values.yaml, to where the schema has properties."""
    if not isinstance(value, dict):
        return {path}
    return {path} | {key for name, item in value.items() for key in keys(item, f"{path}/{name}")}


def described(schema: Any, definitions: Any, path: str = "") -> set[str]:
    if reference := schema.get("$ref"):
        schema = definitions[reference.rsplit("/", 1)[1]]
    found = {path}
    for name, item in schema.get("properties", {}).items():
        found |= described(item, definitions, f"{path}/{name}")
    return found


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = described(schema, schema["definitions"]) - {"/global", "/simulated/image/pullPolicy"}
    values = keys(yaml.safe_load((CHART / "values.yaml").read_text()))
    assert known <= values
    # What is free within the schema: labels, affinity, amounts of resources.
    assert all(any(more.startswith(f"{key}/") for key in known) for more in values - known)
