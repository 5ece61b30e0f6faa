"""The kinds of the Prometheus Operator, without their schemas, which are nobody's concern here."""

from typing import Any

from harness.controlplane import ControlPlane
from manifests.rendering import as_list


async def add_monitoring_kinds(server: ControlPlane) -> None:
    await server.kubectl("apply", "--filename=-", stdin=as_list(map(_definition, ("PodMonitor", "PrometheusRule"))))
    await server.kubectl("wait", "--for=condition=Established", "crd", "--all")


def _definition(kind: str) -> dict[str, Any]:
    plural, group = f"{kind.lower()}s", "monitoring.coreos.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
