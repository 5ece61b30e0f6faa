"""Parameters of claims and classes, which were objects of their own, as requests and configs of today."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Final, NamedTuple

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from gpusharing.api import names
from gpusharing.api.nvidia import API_VERSION
from gpusharing.converting import gpu_selector, opaque
from gpusharing.converting.fields import Field
from gpusharing.converting.remarks import shown
from gpusharing.converting.scalars import scalar

NVIDIA: Final = "gpu.resource.nvidia.com"
_DRIVER: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?")
_FORMER_DRIVERS: Final = {NVIDIA: names.DRIVER}
CLASSIC: Final = ("resource.k8s.io/v1alpha1", "resource.k8s.io/v1alpha2")
KUBERNETES_KINDS: Final = ("ResourceClaimParameters", "ResourceClassParameters")
NVIDIA_KINDS: Final = (
    "GpuClaimParameters",
    "MigDeviceClaimParameters",
    "ComputeInstanceParameters",
    "DeviceClassParameters",
)


Key = tuple[str, str, str]
"""Kind, namespace and name."""


class Known:
    """Those that the files have."""

    def __init__(self) -> None:
        self._by_key: dict[Key, Field] = {}
        self._found: set[Key] = set()
        self._used: set[Key] = set()
        self._referred_to: set[Key] = set()

    def add(self, field: Field) -> None:
        self._by_key[_key(field)] = field

    def find(self, reference: Field, namespace: str) -> Field:
        key = reference["kind"].text, namespace, reference["name"].text
        if key not in self._by_key:
            raise reference.refusal(
                f"refers to {shown(key[0])} {shown(key[2])}, which is in none of the files",
                "convert its file together with this",
            )
        self._found.add(key)
        self._referred_to.add(key)
        return self._by_key[key]

    @contextmanager
    def used_if_converted(self) -> Iterator[None]:
        self._found.clear()
        yield
        self._used |= self._found

    def is_referred_to(self, field: Field) -> bool:
        return _key(field) in self._referred_to

    def is_used(self, field: Field) -> bool:
        return _key(field) in self._used


def is_one(field: Field) -> bool:
    version, kind = field.type
    group = version.partition("/")[0]
    return (group == NVIDIA and kind in NVIDIA_KINDS) or (version in CLASSIC and kind in KUBERNETES_KINDS)


def _key(field: Field) -> Key:
    metadata = field["metadata"]
    return field.text_at("kind"), metadata.text_at("namespace"), metadata["name"].text


class Request(NamedTuple):
    exactly: CommentedMap
    """Without the class."""
    config: CommentedMap | None = None
    device_class: str | None = None
    """If it is not that of the claim."""
    name: str = "gpu"


def driver_of_today(named: Field) -> str:
    """It becomes a part of expressions."""
    if not _DRIVER.fullmatch(named.text):
        raise named.refusal(f"{shown(named.text)} is no name of a driver")
    return _FORMER_DRIVERS.get(named.text, named.text)


def of_claim(reference: Field, namespace: str, known: Known) -> list[Request]:
    parameters = known.find(reference, namespace)
    match parameters.text_at("kind"):
        case "GpuClaimParameters":
            return [_gpu(parameters)]
        case "MigDeviceClaimParameters":
            return [_mig(parameters)]
        case "ResourceClaimParameters":
            return _structured(parameters)
        case kind:
            raise reference.refusal(f"{shown(kind)} has no counterpart", "ask for a MIG device by class mig.nvidia.com")


def of_class(reference: Field, driver: str, known: Known) -> tuple[list[str], list[CommentedMap]]:
    """Selectors and configs."""
    parameters = known.find(reference, reference.text_at("namespace"))
    if parameters.text_at("kind") == "DeviceClassParameters":
        sharable = parameters.get("spec", "sharable")
        if sharable:
            sharable.inform("is not needed any more", "several pods can name the same ResourceClaim")
        return [], []
    if parameters.text_at("kind") != "ResourceClassParameters":
        raise reference.refusal("names no parameters of a class")
    selectors = [
        gpu_selector.named_resources(selector, driver)
        for filtered in parameters.items("filters")
        if (selector := filtered.get("namedResources", "selector"))
    ]
    return selectors, [_vendor_config(vendor) for vendor in parameters.items("vendorParameters")]


def _gpu(parameters: Field) -> Request:
    exactly = CommentedMap()
    spec = parameters.get("spec")
    if spec is None:
        return Request(exactly)
    if "selector" in spec:
        exactly["selectors"] = _selectors([gpu_selector.as_cel(spec["selector"])])
    if "count" in spec and spec["count"].number != 1:
        exactly["count"] = spec["count"].number
    return Request(exactly, _sharing(spec, "GpuConfig"))


def _mig(parameters: Field) -> Request:
    spec = parameters["spec"]
    exactly = CommentedMap()
    if "profile" in spec:
        profile = spec["profile"].text.replace("'", "")
        exactly["selectors"] = _selectors([f"device.attributes['{names.DRIVER}'].profile == '{profile}'"])
    if "gpuClaimName" in spec:
        spec["gpuClaimName"].warn(
            "has no counterpart between claims: the MIG device may be on any GPU",
            "put the requests into one claim, with the constraint matchAttribute: gpu.nvidia.com/parentUUID",
        )
    if spec.text_at("sharing", "strategy") == "MPS":
        spec["sharing"].warn("our agent refuses MPS on a MIG device", "remove it, or ask for an MPS share")
    return Request(exactly, _sharing(spec, "MigDeviceConfig"), device_class="mig.nvidia.com", name="mig")


def _sharing(spec: Field, kind: str) -> CommentedMap | None:
    if "sharing" not in spec:
        return None
    opaque.renew_sharing(spec)
    parameters = CommentedMap(apiVersion=API_VERSION, kind=kind, sharing=spec["sharing"].map)
    return _config(names.DRIVER, parameters)


def _structured(parameters: Field) -> list[Request]:
    if "shareable" in parameters and not parameters["shareable"].switch:
        parameters["shareable"].warn(
            "has no counterpart: every claim can be used by several pods", "use a ResourceClaimTemplate"
        )
    requests: list[Request] = []
    for of_driver in parameters.items("driverRequests"):
        driver = driver_of_today(of_driver["driverName"])
        if "vendorParameters" in of_driver:
            raise of_driver["vendorParameters"].refusal(
                "is for all requests of the driver, of which the classes are not known", "write a config by hand"
            )
        for request in of_driver.items("requests"):
            exactly = CommentedMap()
            expressions = [f"device.driver == '{driver}'"]
            if selector := request.get("namedResources", "selector"):
                expressions.append(gpu_selector.named_resources(selector, driver))
            exactly["selectors"] = _selectors(expressions)
            vendor = request.get("vendorParameters")
            config = _config(driver, vendor.map) if vendor else None
            requests.append(Request(exactly, config, name="device"))
    if not requests:
        raise parameters.refusal("requests nothing", "delete the claim")
    return requests


def _vendor_config(vendor: Field) -> CommentedMap:
    return _config(driver_of_today(vendor["driverName"]), vendor["parameters"].map)


def _config(driver: str, parameters: CommentedMap) -> CommentedMap:
    # Several claims may refer to the same.
    return CommentedMap(opaque=CommentedMap(driver=scalar(driver), parameters=deepcopy(parameters)))


def _selectors(expressions: list[str]) -> CommentedSeq:
    return CommentedSeq(selector(expression) for expression in expressions)


def selector(expression: str) -> Any:
    return CommentedMap(cel=CommentedMap(expression=expression))
