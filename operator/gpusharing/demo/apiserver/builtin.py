"""What Kubernetes itself adds to objects of its own kinds, as far as people and programs of the demo look at it."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpusharing.demo.apiserver.errors import Cause, required
from gpusharing.demo.apiserver.kinds import EVENTS, Kind

Json = dict[str, Any]

_POD: Final = {
    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
}  # fmt: skip
_CONTAINER: Final = {
    "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
}  # fmt: skip
_NOT_READY: Final = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for name in ("not-ready", "unreachable")
]
_MATCHES: Final = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_ROLLING: Final = {"rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}, "type": "RollingUpdate"}


def with_defaults(kind: Kind, value: Json, *, is_new: bool) -> Json:
    spec: Json = dict(value.get("spec") or {})
    match kind.resource:
        case "pods":
            spec = _pod(spec)
            if is_new:
                spec["serviceAccountName"] = spec.get("serviceAccountName") or "default"
                spec["serviceAccount"] = spec["serviceAccountName"]
                tolerations = spec.get("tolerations") or []
                known = {one.get("key") for one in tolerations}
                spec["tolerations"] = [*tolerations, *(one for one in _NOT_READY if one["key"] not in known)]
        case "daemonsets.apps":
            rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
            spec = {"revisionHistoryLimit": 10, "updateStrategy": rolling} | spec | _template(spec)
        case "deployments.apps":
            usual = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": _ROLLING}
            spec = usual | spec | _template(spec)
        case "namespaces":
            name = value["metadata"]["name"]
            labels = {**(value["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
            value = {**value, "metadata": {**value["metadata"], "labels": labels}}
            spec.setdefault("finalizers", ["kubernetes"])
        case "secrets":
            return _secret(value)
        case "resourceclaims.resource.k8s.io" | "deviceclasses.resource.k8s.io":
            spec = _claim(spec)
        case "resourceclaimtemplates.resource.k8s.io":
            spec = {**spec, "spec": _claim(spec.get("spec") or {})}
        case "validatingadmissionpolicies.admissionregistration.k8s.io":
            spec = {"failurePolicy": "Fail"} | spec
            spec["matchConstraints"] = _matching(spec.get("matchConstraints") or {})
        case "validatingadmissionpolicybindings.admissionregistration.k8s.io" if spec.get("matchResources"):
            spec["matchResources"] = _matching(spec["matchResources"])
    if "spec" in value or spec:
        value = {**value, "spec": spec}
    return value


def status_of_new(kind: Kind) -> Json | None:
    match kind.resource:
        case "pods":
            return {"phase": "Pending", "qosClass": "BestEffort"}
        case "namespaces":
            return {"phase": "Active"}
        case "resourceclaims.resource.k8s.io" | "daemonsets.apps" | "deployments.apps" | "resourcequotas":
            return dict(_DAEMON_SET) if kind.plural == "daemonsets" else {}
        case _:
            return None


_DAEMON_SET: Final = {
    "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
}  # fmt: skip


def _pod(spec: Json) -> Json:
    filled = _POD | spec
    for field in ("initContainers", "containers"):
        if field in filled:
            filled[field] = [_container(one) for one in filled[field] or ()]
    return filled


def _container(container: Json) -> Json:
    image = str(container.get("image", "")).rpartition("/")[2]
    is_latest = "@" not in image and image.partition(":")[2] in {"", "latest"}
    filled = _CONTAINER | {"imagePullPolicy": "Always" if is_latest else "IfNotPresent"} | container
    if "ports" in filled:
        filled["ports"] = [{"protocol": "TCP"} | one for one in filled["ports"]]
    if limits := filled["resources"].get("limits"):
        requests = {**limits, **(filled["resources"].get("requests") or {})}
        filled["resources"] = {**filled["resources"], "requests": requests}
    return filled


def _template(spec: Json) -> Json:
    template = spec.get("template") or {}
    pod = {name: part for name, part in _pod(template.get("spec") or {}).items() if name not in {"preemptionPolicy", "priority", "enableServiceLinks"}}
    return {"template": {**template, "spec": pod}}


def _secret(value: Json) -> Json:
    data = dict(value.get("data") or {})
    for name, text in (value.get("stringData") or {}).items():
        data[name] = base64.b64encode(text.encode()).decode()
    kept = {name: part for name, part in value.items() if name != "stringData"}
    return {"type": "Opaque"} | kept | ({"data": data} if data else {})


def _claim(spec: Json) -> Json:
    """Of a claim or a class, which has no devices."""
    devices = spec.get("devices")
    if not isinstance(devices, dict):
        return spec
    requests = [
        {**one, **({"exactly": _request(one["exactly"])} if one.get("exactly") else {}),
         **({"firstAvailable": [_request(each) for each in one["firstAvailable"]]} if one.get("firstAvailable") else {})}
        for one in devices.get("requests") or ()
    ]  # fmt: skip
    return {**spec, "devices": {**devices, **({"requests": requests} if requests else {})}}


def _request(request: Json) -> Json:
    filled = {"allocationMode": "ExactCount"} | request
    if filled["allocationMode"] == "ExactCount":
        filled = {"count": 1} | filled
    if "tolerations" in filled:
        filled["tolerations"] = [{"operator": "Equal"} | one for one in filled["tolerations"]]
    return filled


def _matching(rules: Json) -> Json:
    filled = _MATCHES | rules
    for field in ("resourceRules", "excludeResourceRules"):
        if field in filled:
            filled[field] = [{"scope": "*"} | one for one in filled[field]]
    return filled


# Of both groups, Events are one collection, as the first group writes them.
_EVENT_FIELDS: Final = {
    "regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent",
    "deprecatedSource": "source", "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp", "deprecatedCount": "count",
}  # fmt: skip
_BACK: Final = {stored: name for name, stored in _EVENT_FIELDS.items()}


def stored(kind: Kind, value: Json) -> Json:
    if kind.group != EVENTS:
        return value
    return {"apiVersion": "v1", **{_EVENT_FIELDS.get(name, name): part for name, part in value.items()}, "kind": "Event"}


def served(kind: Kind, value: Mapping[str, Any]) -> Json:
    """As a client of this version sees it."""
    if kind.group == EVENTS:
        value = {_BACK.get(name, name): part for name, part in value.items()}
    return {**value, "apiVersion": kind.group_version, "kind": kind.kind}


def problems(kind: Kind, value: Mapping[str, Any]) -> Iterator[Cause]:
    """Required fields of Kubernetes' own kinds, as the schema has them."""
    yield from _missing(kind.schema, value, "", kind)


def _missing(schema: Mapping[str, Any], value: Any, path: str, kind: Kind) -> Iterator[Cause]:
    from gpusharing.demo.apiserver.kinds import followed, items_of, part_of  # noqa: PLC0415

    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _missing(items_of(schema), item, f"{path}[{number}]", kind)
    elif isinstance(value, dict):
        for name in schema.get("required") or ():
            if name not in value and schema["properties"][name].get("type") not in {"boolean", "integer"}:
                yield required(f"{path}.{name}" if path else name)
        for name, part in value.items():
            below = part_of(schema, name)
            if below is not None and name not in {"metadata", "status"}:
                yield from _missing(followed(below), part, f"{path}.{name}" if path else name, kind)
