"""The demos of Kubernetes' example driver: the same claims and pods, in their shortest form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.workloads import SHELL, claim, template
from node.example_drivers import CPU, EXTENDED, GPU, NET, PARTITIONS, SHARED, SHARED_PARTITIONS

Json = dict[str, Any]

_OPAQUE: Final = "gpu.resource.example.com/v1alpha1"
_SHOWS_ITS_DEVICES: Final = ["sh", "-c", "env; exec sleep 1000000"]


@dataclass(frozen=True)
class Demo:
    objects: Sequence[Json]
    devices: Mapping[str, int]
    """How many each container sees, by pod/container."""
    shows: Sequence[str] = field(default_factory=tuple)
    """More of its environment."""


def request(device_class: str, name: str = "gpu", *, selectors: Sequence[str] = (), **exactly: Any) -> Json:
    return {"name": name, "exactly": _wanted(device_class, selectors, exactly)}


def _wanted(device_class: str, selectors: Sequence[str] = (), more: Mapping[str, Any] | None = None) -> Json:
    chosen = [{"cel": {"expression": expression}} for expression in selectors]
    return {"deviceClassName": device_class, **({"selectors": chosen} if chosen else {}), **(more or {})}


def asks(*requests: Json, config: Sequence[Json] = ()) -> Json:
    return {"devices": {"requests": list(requests), **({"config": list(config)} if config else {})}}


def amounts(**requests: str) -> Json:
    return {"requests": requests}


def pod(
    name: str,
    source: Mapping[str, str] | None = None,
    *,
    containers: Sequence[Json] = (),
    labels: str = "demo",
    **more: Any,
) -> Json:
    """`source`: of its claim; without one, containers say what they need."""
    resources: Json = {"claims": [{"name": "gpu"}]} if source else {}
    spec: Json = {
        "terminationGracePeriodSeconds": 0,
        "containers": [_container(one, resources) for one in containers or [{}]],
    }
    if source:
        spec["resourceClaims"] = [{"name": "gpu", **source}]
    metadata = {"name": name, "namespace": "default", "labels": {"app": labels}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | more}


def _container(changes: Mapping[str, Any], resources: Json) -> Json:
    return {"name": "main", "image": SHELL, "command": _SHOWS_ITS_DEVICES, "resources": resources} | dict(changes)


def of_template(name: str) -> dict[str, str]:
    return {"resourceClaimTemplateName": name}


def of_claim(name: str) -> dict[str, str]:
    return {"resourceClaimName": name}


def _of_request(container: str, request: str) -> Json:
    return {"name": container, "resources": {"claims": [{"name": "gpu", "request": request}]}}


def _extended(resource: str) -> list[Json]:
    return [{"resources": {"limits": {resource: "1"}}}]


def _configured(request: str, **sharing: Any) -> Json:
    parameters = {"apiVersion": _OPAQUE, "kind": "GpuConfig", "sharing": sharing}
    return {"requests": [request], "opaque": {"driver": GPU, "parameters": parameters}}


_LATEST: Final = f"device.attributes['{GPU}'].model == 'LATEST-GPU-MODEL'"
_AT_LEAST: Final = f"device.capacity['{GPU}'].memory.compareTo(quantity('%s')) >= 0"

DEMOS: Final[Mapping[str, Demo]] = {
    "admin access": Demo(
        [
            template("admin", asks(request(GPU, allocationMode="All", adminAccess=True))),
            pod("admin", of_template("admin")),
        ],
        {"admin/main": 16},
        ["DRA_ADMIN_ACCESS=true"],
    ),
    "several requests": Demo(
        [template("two", asks(request(GPU, "gpu-1"), request(GPU, "gpu-2"))), pod("two", of_template("two"))],
        {"two/main": 2},
    ),
    "opaque config": Demo(
        [
            template(
                "configured",
                asks(
                    request(GPU, "ts"),
                    request(GPU, "sp"),
                    config=[
                        _configured("ts", strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"}),
                        _configured("sp", strategy="SpacePartitioning", spacePartitioningConfig={"partitionCount": 10}),
                    ],
                ),
            ),
            pod(
                "configured",
                of_template("configured"),
                containers=[_of_request(f"{one}-{index}", one) for one in ("ts", "sp") for index in range(2)],
            ),
        ],
        {"configured/ts-0": 1, "configured/ts-1": 1, "configured/sp-0": 1, "configured/sp-1": 1},
        ["_TIMESLICE_INTERVAL=Long", "_PARTITION_COUNT=10"],
    ),
    "a claim for each pod": Demo(
        [
            template("one", asks(request(GPU))),
            *(pod(name, of_template("one")) for name in ("each-0", "each-1")),
        ],
        {"each-0/main": 1, "each-1/main": 1},
    ),
    "a claim for several containers": Demo(
        [pod("containers", of_template("one"), containers=[{"name": "left"}, {"name": "right"}])],
        {"containers/left": 1, "containers/right": 1},
    ),
    "a claim for several pods": Demo(
        [
            claim("common", asks(request(GPU))),
            *(pod(name, of_claim("common")) for name in ("common-0", "common-1")),
        ],
        {"common-0/main": 1, "common-1/main": 1},
    ),
    "init container": Demo(
        [
            pod(
                "init",
                of_template("one"),
                initContainers=[_container({"name": "first", "command": ["env"]}, {"claims": [{"name": "gpu"}]})],
            )
        ],
        {"init/first": 1, "init/main": 1},
    ),
    "selectors": Demo(
        [
            template("selected", asks(request(GPU, selectors=[_LATEST, _AT_LEAST % "4Gi"]))),
            pod("selected", of_template("selected")),
        ],
        {"selected/main": 1},
    ),
    "alternatives": Demo(
        [
            template(
                "huge",
                asks(
                    {
                        "name": "gpu",
                        "firstAvailable": [
                            {"name": "huge", **_wanted(GPU, [_AT_LEAST % "1Ti"])},
                            {"name": "any", **_wanted(GPU)},
                        ],
                    }
                ),
            ),
            template(
                "latest",
                asks(
                    {
                        "name": "gpu",
                        "firstAvailable": [
                            {"name": "latest", **_wanted(GPU, [_LATEST])},
                            {"name": "any", **_wanted(GPU)},
                        ],
                    }
                ),
            ),
            pod("huge", of_template("huge")),
            pod("latest", of_template("latest")),
        ],
        {"huge/main": 1, "latest/main": 1},
    ),
    "extended resources": Demo(
        [
            pod("implicit", containers=_extended(f"deviceclass.resource.kubernetes.io/{GPU}")),
            pod("explicit", containers=_extended(EXTENDED)),
        ],
        {"implicit/main": 1, "explicit/main": 1},
    ),
    "group of pods": Demo(
        [
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "gang", "namespace": "default"},
                "spec": {
                    "schedulingPolicy": {"gang": {"minCount": 2}},
                    "resourceClaims": [{"name": "gpu", **of_template("one")}],
                },
            },
            *(pod(name, of_template("one"), schedulingGroup={"podGroupName": "gang"}) for name in ("gang-0", "gang-1")),
        ],
        {"gang-0/main": 1, "gang-1/main": 1},
    ),
    "network cards": Demo(
        [
            template("fast", asks(request(NET, capacity=amounts(ingressBandwidth="10G", egressBandwidth="5G")))),
            template("slow", asks(request(NET, capacity=amounts(ingressBandwidth="5G", egressBandwidth="5G")))),
            pod("fast", of_template("fast")),
            pod("slow", of_template("slow")),
        ],
        {"fast/main": 1, "slow/main": 1},
        ["_INGRESS_RATE=10000000000"],
    ),
    "processors": Demo(
        [
            template(
                "cpus", asks(*(request(CPU, f"cpu-{one}", capacity=amounts(**{f"{CPU}/cpu": "1"})) for one in range(2)))
            ),
            pod("cpus", of_template("cpus")),
        ],
        {"cpus/main": 1},
    ),
    "partitions": Demo(
        [template("partitions", asks(request(PARTITIONS, count=2))), pod("partitions", of_template("partitions"))],
        {"partitions/main": 2},
    ),
    "shared GPU": Demo(
        [
            template("shared", asks(request(SHARED, capacity=amounts(memory="16Gi", compute="20")))),
            *(pod(name, of_template("shared")) for name in ("shared-0", "shared-1")),
        ],
        {"shared-0/main": 1, "shared-1/main": 1},
        ["_MEMORY=16Gi", "_COMPUTE=20"],
    ),
    "shared partitions": Demo(
        [
            template("parts", asks(request(SHARED_PARTITIONS, capacity=amounts(memory="8Gi", compute="10")))),
            *(pod(name, of_template("parts")) for name in ("parts-0", "parts-1")),
        ],
        {"parts-0/main": 1, "parts-1/main": 1},
        ["_MEMORY=8Gi"],
    ),
}
"""All but the one with binding conditions, which only a controller of the driver fulfils."""
