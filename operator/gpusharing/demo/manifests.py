"""The objects of the story, as people write them."""

from typing import Any, Final

from gpusharing.demo.cluster import Json
from gpusharing.sim import cuda

MIG_PROFILE: Final = "1g.10gb"
"""Of an H100 and of an A100 with 80 GB."""


def namespace(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def policy(name: str, **spec: Any) -> Json:
    return {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy", "metadata": {"name": name}, "spec": spec}


def template(name: str, namespace: str, device_class: str, **capacity: str) -> Json:
    wanted: dict[str, Any] = {"deviceClassName": device_class}
    if capacity:
        wanted["capacity"] = {"requests": capacity}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}}},
    }


def pod(
    name: str,
    namespace: str,
    template: str,
    *,
    memory: str,
    utilization: int = 0,
    node: str = "",
    once: bool = False,
) -> Json:
    """It takes that much memory of its GPU, and keeps so many percent of it busy."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "restartPolicy": "Never" if once else "Always",
            **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}),
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
            "containers": [
                {
                    "name": "main",
                    "image": "simulated",
                    "command": [cuda.PROGRAM, f"--memory={memory}", f"--utilization={utilization}"],
                    "resources": {"claims": [{"name": "gpu"}]},
                }
            ],
        },
    }
