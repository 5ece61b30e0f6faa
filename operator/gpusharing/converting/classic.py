"""resource.k8s.io/v1alpha1 and v1alpha2, of Kubernetes 1.26 to 1.30 and of old blog posts, to v1."""

from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from gpusharing.api import names
from gpusharing.converting import parameters
from gpusharing.converting.dra import V1, warn_of_installed_class
from gpusharing.converting.fields import Field
from gpusharing.converting.moving import position, take
from gpusharing.converting.parameters import Known, Request, selector
from gpusharing.converting.remarks import shown
from gpusharing.converting.scalars import scalar


def to_v1(document: Field, known: Known) -> None:
    kind = document["kind"]
    match kind.text:
        case "ResourceClass":
            _resource_class(document, known)
        case "ResourceClaim":
            _claim(document["spec"], document["metadata"].text_at("namespace"), known)
            if "status" in document:
                document["status"].inform("was written by Kubernetes, and is left out")
                take(document.map, "status")
        case "ResourceClaimTemplate":
            _claim(document["spec"]["spec"], document["metadata"].text_at("namespace"), known)
        case _:
            raise kind.refusal(f"{shown(kind.text)} has no counterpart in {V1}", "delete the document")
    document.map["apiVersion"] = V1


def _resource_class(document: Field, known: Known) -> None:
    former = document["driverName"]
    driver = parameters.driver_of_today(former)
    if driver != former.text:
        former.inform(f"NVIDIA's driver {former.text} is called {driver} today")
    selectors = [_of_driver(driver)]
    configs: list[CommentedMap] = []
    if "parametersRef" in document:
        of_parameters, configs = parameters.of_class(document["parametersRef"], driver, known)
        selectors += of_parameters
    if "suitableNodes" in document:
        document["suitableNodes"].warn(
            "has no counterpart: ResourceSlices say on which nodes devices are", "use a nodeSelector in the pods"
        )
    warn_of_installed_class(document["metadata"]["name"])
    spec = CommentedMap(selectors=CommentedSeq(selector(expression) for expression in selectors))
    if configs:
        spec["config"] = CommentedSeq(configs)
    _replace(document.map, ("driverName", "parametersRef", "suitableNodes", "structuredParameters"), "spec", spec)
    document.map["kind"] = "DeviceClass"


def _of_driver(driver: str) -> str:
    """The selector of a class that says no more."""
    if driver == names.DRIVER:
        return f"device.driver == '{driver}' && device.attributes['{driver}'].type == 'gpu'"
    return f"device.driver == '{driver}'"


def _claim(spec: Field, namespace: str, known: Known) -> None:
    device_class = spec["resourceClassName"].text
    requests = [Request(CommentedMap())]
    if "parametersRef" in spec:
        requests = parameters.of_claim(spec["parametersRef"], namespace, known)
    if spec.text_at("allocationMode") == "Immediate":
        spec["allocationMode"].inform("has no counterpart: devices are allocated when a pod uses the claim")
    found, configs = CommentedSeq(), CommentedSeq()
    for number, request in enumerate(requests):
        name = request.name if len(requests) == 1 else f"{request.name}-{number}"
        given = {"deviceClassName": scalar(request.device_class or device_class), **request.exactly}
        found.append(CommentedMap(name=name, exactly=CommentedMap(given)))
        if request.config is not None:
            configs.append(CommentedMap({"requests": CommentedSeq([name]), **request.config}))
    if device_class == names.DRIVER and len(requests) == 1 and requests[0].device_class:
        spec["resourceClassName"].inform(f"MIG devices have a class of their own: {requests[0].device_class}")
    devices = CommentedMap(requests=found)
    if configs:
        devices["config"] = configs
    _replace(spec.map, ("resourceClassName", "parametersRef", "allocationMode"), "devices", devices)


def _replace(mapping: CommentedMap, former: tuple[str, ...], key: str, value: CommentedMap) -> None:
    there = [name for name in mapping if name in former]
    place = position(mapping, there[0])
    comments = [take(mapping, name)[1] for name in there]
    mapping.insert(place, key, value)
    if comments[-1] is not None:
        _append(value, comments[-1])


def _append(value: CommentedMap, comments: Any) -> None:
    """Comments behind all of it."""
    node: Any = value
    while isinstance(node, CommentedMap | CommentedSeq) and node:
        inner, key = node, next(reversed(node)) if isinstance(node, CommentedMap) else len(node) - 1
        node = inner[key]
    # Those of a list's item stand elsewhere than those of a mapping's.
    inner.ca.items[key] = comments if isinstance(inner, CommentedMap) else [comments[2], *[None] * 3]
