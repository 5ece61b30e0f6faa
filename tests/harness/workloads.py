"""Policies, claims and pods as people write them."""

from typing import Any, Final

from gpusharing.api.dra import Pod
from gpusharing.kube.kinds import Kind

PODS: Final = Kind("v1", "Pod", "pods", Pod, namespaced=True)

SHELL = "localhost/shell:1"


def policy(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy", "metadata": {"name": name}, "spec": spec}


def time_slicing(name: str, *, clients: int = 4, interval: str = "Medium", **spec: Any) -> dict[str, Any]:
    return policy(name, offers={"timeSlicing": {"maxClients": clients, "interval": interval}}, **spec)


def claim_spec(device_class: str, *, config: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    devices: dict[str, Any] = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": device_class}}]}
    if config:
        devices["config"] = config
    return {"devices": devices}


def gpu_config(sharing: dict[str, Any]) -> dict[str, Any]:
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}
    return {"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}


def template(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": spec},
    }


def claim(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def pod(
    name: str, *, template: str | None = None, claim: str | None = None, containers: int = 1, labels: str = "test"
) -> dict[str, Any]:
    """A pod that sleeps; each of its containers uses the claim."""
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": labels}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "gpu", **source}],
            "containers": [
                {
                    "name": f"main-{index}",
                    "image": SHELL,
                    "command": ["sleep", "1000000"],
                    "resources": {"claims": [{"name": "gpu"}]},
                }
                for index in range(containers)
            ],
        },
    }
