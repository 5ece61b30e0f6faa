"""What an installation brings: device classes (manifests/base/deviceclasses.yaml) and guards."""

from collections.abc import Iterator
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.core.cluster.guards import allocation, claims, closing, pods

_OF_NVIDIA: Final = 'device.attributes["gpu.nvidia.com"].?type.orValue("")'
_OF_OURS: Final = f'device.attributes["{names.GROUP}"]'
_SELECTED: Final = {
    "gpu.nvidia.com": f'{_OF_NVIDIA} == "gpu"',
    "mig.nvidia.com": f'{_OF_NVIDIA} == "mig"',
    "timeslicing.gpu.nvidia.com": f'{_OF_OURS}.?sharing.orValue("") == "{Sharing.TIME_SLICING}"',
    "mps.gpu.nvidia.com": f'{_OF_OURS}.?sharing.orValue("") == "{Sharing.MPS}"',
}
_EXTENDED_RESOURCES: Final = {"gpu.nvidia.com": "nvidia.com/gpu"}


def classes() -> Iterator[dict[str, Any]]:
    for name, selected in _SELECTED.items():
        expression = (
            f'device.driver == "{names.DRIVER}" && {selected} && '
            f"{_OF_OURS}.?closing.orValue(false) != true && {_OF_OURS}.?restricted.orValue(false) != true"
        )
        spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]}
        if resource := _EXTENDED_RESOURCES.get(name):
            spec["extendedResourceName"] = resource
        yield {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def guards() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """And their bindings."""
    made = [
        *claims.claims(),
        *claims.tolerations(),
        *pods.pods(),
        *allocation.allocation(),
        *closing.closing(),
    ]
    return (
        [one for one in made if one["kind"] == "ValidatingAdmissionPolicy"],
        [one for one in made if one["kind"] != "ValidatingAdmissionPolicy"],
    )
