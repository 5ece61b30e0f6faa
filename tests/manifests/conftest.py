from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from harness.controlplane import ControlPlane
from harness.gpu_cluster import MANIFESTS
from manifests.rendering import as_list


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def installed(toolchain: Path) -> AsyncIterator[ControlPlane]:
    """A control plane to which manifests/base was applied, once and in one go, as people do it."""
    # Another version of the API must be no way around.
    async with ControlPlane(runtime_config="resource.k8s.io/v1beta2=true") as control_plane:
        await control_plane.kubectl("apply", "--kustomize", MANIFESTS)
        await control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        yield control_plane


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def monitoring_kinds(installed: ControlPlane) -> None:
    """The kinds of the Prometheus Operator, without their schemas, which are nobody's concern here."""
    await installed.kubectl(
        "apply", "--filename=-", stdin=as_list(map(_monitoring_kind, ("PodMonitor", "PrometheusRule")))
    )
    await installed.kubectl("wait", "--for=condition=Established", "crd", "--all")


def _monitoring_kind(kind: str) -> dict[str, Any]:
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
