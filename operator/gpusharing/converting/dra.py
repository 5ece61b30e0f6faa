"""resource.k8s.io/v1alpha3, v1beta1 and v1beta2 to v1."""

from typing import Final

from ruamel.yaml.comments import CommentedMap

from gpusharing.api import names
from gpusharing.converting import opaque
from gpusharing.converting.fields import Field
from gpusharing.converting.moving import gather, spread, take
from gpusharing.converting.remarks import shown

GROUP: Final = "resource.k8s.io"
V1: Final = f"{GROUP}/v1"
VERSIONS: Final = (f"{GROUP}/v1alpha3", f"{GROUP}/v1beta1", f"{GROUP}/v1beta2")
ONLY_ALPHA: Final = "ResourcePoolStatusRequest"
"""There is no other version of it."""
SCHEDULING: Final = ("PodSchedulingContext", "PodScheduling")

_OF_EXACTLY: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)


def to_v1(document: Field) -> None:
    kind = document["kind"]
    match kind.text:
        case "DeviceClass":
            _device_class(document)
        case "ResourceClaim":
            _claim(document["spec"])
            if document.text_at("apiVersion") == VERSIONS[0] and "status" in document:
                document["status"].inform("was written by Kubernetes, and is left out")
                take(document.map, "status")
        case "ResourceClaimTemplate":
            _claim(document["spec"]["spec"])
        case "ResourceSlice":
            _slice(document["spec"])
        case "DeviceTaintRule":
            _taint_rule(document["spec"])
        case _:
            raise kind.refusal(f"{shown(kind.text)} does not exist in {V1}", "delete the document")
    document.map["apiVersion"] = V1


def renew_configs(document: Field) -> bool:
    """In objects that are v1 already. Whether there were any."""
    match document.text_at("kind"):
        case "DeviceClass":
            spec = document.get("spec")
        case "ResourceClaim":
            spec = document.get("spec", "devices")
        case "ResourceClaimTemplate":
            spec = document.get("spec", "spec", "devices")
        case _:
            spec = None
    renewed = [opaque.renew(config) for config in spec.items("config")] if spec else []
    return any(renewed)


def warn_of_installed_class(name: Field) -> None:
    if name.text in names.INSTALLED_CLASSES:
        name.warn(
            f"manifests/base installs class {name.text}, and its selectors exclude devices that are being withdrawn",
            "delete this document where this project is installed",
        )


def _device_class(document: Field) -> None:
    spec = document["spec"]
    if "suitableNodes" in spec:
        spec["suitableNodes"].warn(
            "has no counterpart: ResourceSlices say on which nodes devices are", "use a nodeSelector in the pods"
        )
        take(spec.map, "suitableNodes")
    for config in spec.items("config"):
        opaque.renew(config)
    warn_of_installed_class(document["metadata"]["name"])


def _claim(spec: Field) -> None:
    if "controller" in spec:
        spec["controller"].warn(
            "has no counterpart: the scheduler allocates, never a controller", "check that the driver publishes slices"
        )
        take(spec.map, "controller")
    if "devices" not in spec:
        return
    for request in spec["devices"].items("requests"):
        _request(request)
    for config in spec["devices"].items("config"):
        opaque.renew(config)


def _request(request: Field) -> None:
    flat = [key for key in _OF_EXACTLY if key in request.map]
    if not flat:
        return
    if "exactly" in request or "firstAvailable" in request:
        other = "exactly" if "exactly" in request else "firstAvailable"
        raise request.refusal(f"has {flat[0]} and {other}", f"remove {flat[0]}, or {other}")
    gather(request.map, flat, into="exactly")


def _slice(spec: Field) -> None:
    for key, unset in (("nodeName", ""), ("allNodes", False)):
        if key in spec and spec[key].value == unset:
            take(spec.map, key)
    for device in spec.items("devices"):
        if "basic" in device:
            device["basic"].map  # noqa: B018 (it is a mapping, or refused)
            both = sorted(device["basic"].map.keys() & device.map.keys())
            if both:
                raise device.refusal(f"has {both[0]} twice: below basic, and next to it", "remove one")
            spread(device.map, "basic")
        if "capacity" in device:
            capacity = device["capacity"].map
            for name, amount in list(capacity.items()):
                if not isinstance(amount, dict):
                    capacity[name] = CommentedMap(value=amount)


def _taint_rule(spec: Field) -> None:
    selector = spec.get("deviceSelector")
    for key in ("deviceClassName", "selectors"):
        if selector and key in selector:
            raise selector[key].refusal(
                "has no counterpart, and without it the rule would taint more devices",
                "select devices by driver, pool and device",
            )
