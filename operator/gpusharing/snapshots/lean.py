"""What of an object is worth to be kept: neither what only its own controllers read, nor what may be secret.

Pods have environments, images and volumes; annotations have whole manifests, or whatever else people put there.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpusharing.api import names
from gpusharing.snapshots.world import (
    CLAIMS,
    DAEMON_SETS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    TEMPLATES,
    Json,
    Resource,
)

_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
)
_ANNOTATIONS: Final = frozenset({"resource.kubernetes.io/pod-claim-name", names.IGNORED_FINDINGS, names.CLEARED_FAULTS})
_POD_SPEC: Final = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "resourceClaims",
    "priority",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "terminationGracePeriodSeconds",
)
_POD_STATUS: Final = ("phase", "conditions", "resourceClaimStatuses", "extendedResourceClaimStatus")
_CONTAINER: Final = ("name", "resources", "restartPolicy")
_CONTAINER_STATUS: Final = ("name", "ready", "started", "restartCount", "state", "lastState")
_EVENT: Final = (
    "apiVersion",
    "kind",
    "involvedObject",
    "reason",
    "message",
    "type",
    "count",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "series",
)


def lean(resource: Resource, item: Json) -> Json:
    kept: dict[str, Any] = {**item, "metadata": _metadata(item["metadata"])}
    match resource:
        case _ if resource == PODS:
            kept["spec"] = _pod_spec(item.get("spec") or {})
            kept["status"] = _some(item.get("status") or {}, _POD_STATUS) | _containers_of_program(item)
        case _ if resource == NODES:
            kept["spec"] = _some(item.get("spec") or {}, ("taints", "unschedulable"))
            kept["status"] = _some(item.get("status") or {}, ("conditions", "allocatable"))
        case _ if resource in {NAMESPACES, TEMPLATES}:
            kept.pop("status", None)
        case _ if resource == CLAIMS:
            kept["status"] = _some(item.get("status") or {}, ("allocation", "reservedFor"))
        case _ if resource == DAEMON_SETS:
            kept["spec"] = _daemon_set_spec(item.get("spec") or {})
        case _ if resource == EVENTS:
            kept = {**_some(item, _EVENT), "metadata": kept["metadata"]}
    return kept


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    found = _some(metadata, _METADATA)
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key in _ANNOTATIONS}
    return {**found, "annotations": annotations} if annotations else found


def _pod_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    return _some(spec, _POD_SPEC) | {
        name: [_some(one, _CONTAINER) for one in spec.get(name) or ()]
        for name in ("initContainers", "containers")
        if name == "containers" or spec.get(name)
    }


def _containers_of_program(pod: Json) -> dict[str, Any]:
    """Why it does not run, and how often it was started."""
    if names.program_of(pod["metadata"].get("labels") or {}) is None:
        return {}
    found = (pod.get("status") or {}).get("containerStatuses") or ()
    return {"containerStatuses": [_some(one, _CONTAINER_STATUS) for one in found]}


def _daemon_set_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    pod = (spec.get("template") or {}).get("spec") or {}
    return {
        "selector": spec.get("selector") or {},
        "template": {"spec": _some(pod, ("nodeSelector",))},
    }


def _some(value: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    return {field: value[field] for field in fields if value.get(field) is not None}
