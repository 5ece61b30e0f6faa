"""What Kubernetes itself adds to objects of its own kinds, as far as people and programs of the demo look at it."""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gpusharing.demo.apiserver.errors import Cause, as_go, invalid_value, required
from gpusharing.demo.apiserver.kinds import EVENTS, Kind, Schema, below_path, followed, items_of, part_of

Json = dict[str, Any]

_POD: Final[Json] = {
    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
}  # fmt: skip
_OF_PODS_ALONE: Final = frozenset({"enableServiceLinks", "preemptionPolicy", "priority"})
_CONTAINER: Final[Json] = {
    "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
}  # fmt: skip
_NOT_READY: Final[list[Json]] = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for name in ("not-ready", "unreachable")
]
_MATCHES: Final[Json] = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_ROLLING: Final[Json] = {"rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}, "type": "RollingUpdate"}


def with_defaults(kind: Kind, value: Json, *, is_new: bool) -> Json:
    if kind.resource == "secrets":
        return _secret(value)
    if kind.resource == "namespaces" and "name" in value["metadata"]:
        about = value["metadata"]
        labels = {**(about.get("labels") or {}), "kubernetes.io/metadata.name": about["name"]}
        value = {**value, "metadata": {**about, "labels": labels}}
    fill = _SPECS.get(kind.resource)
    if fill is None:
        return value
    spec = fill(dict(value.get("spec") or {}))
    return {**value, "spec": _admitted_pod(spec) if is_new and kind.resource == "pods" else spec}


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


def _admitted_pod(spec: Json) -> Json:
    """With what admission gives a new pod."""
    account = spec.get("serviceAccountName") or "default"
    tolerations = spec.get("tolerations") or []
    known = {one.get("key") for one in tolerations}
    usual = [one for one in _NOT_READY if one["key"] not in known]
    return spec | {"serviceAccountName": account, "serviceAccount": account, "tolerations": [*tolerations, *usual]}


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
    pod = _pod(template.get("spec") or {})
    kept = {name: part for name, part in pod.items() if name not in _OF_PODS_ALONE}
    return {"template": {**template, "spec": kept}}


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
    requests = []
    for one in devices.get("requests") or ():
        filled = dict(one)
        if one.get("exactly"):
            filled["exactly"] = _request(one["exactly"])
        if one.get("firstAvailable"):
            filled["firstAvailable"] = [_request(each) for each in one["firstAvailable"]]
        requests.append(filled)
    return {**spec, "devices": {**devices, "requests": requests} if requests else devices}


def _request(request: Json) -> Json:
    filled: Json = {"allocationMode": "ExactCount"} | request
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


def _daemon_set(spec: Json) -> Json:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    return {"revisionHistoryLimit": 10, "updateStrategy": rolling} | spec | _template(spec)


def _deployment(spec: Json) -> Json:
    usual = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": _ROLLING}
    return usual | spec | _template(spec)


def _policy(spec: Json) -> Json:
    return {"failurePolicy": "Fail"} | spec | {"matchConstraints": _matching(spec.get("matchConstraints") or {})}


def _binding(spec: Json) -> Json:
    return spec | ({"matchResources": _matching(spec["matchResources"])} if spec.get("matchResources") else {})


_SPECS: Final[Mapping[str, Callable[[Json], Json]]] = {
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _deployment,
    "namespaces": lambda spec: {"finalizers": ["kubernetes"]} | spec,
    "pods": _pod,
    "resourceclaims.resource.k8s.io": _claim,
    "resourceclaimtemplates.resource.k8s.io": lambda spec: {**spec, "spec": _claim(spec.get("spec") or {})},
    "validatingadmissionpolicies.admissionregistration.k8s.io": _policy,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _binding,
}


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
    return {
        "apiVersion": "v1",
        **{_EVENT_FIELDS.get(name, name): part for name, part in value.items()},
        "kind": "Event",
    }


def served(kind: Kind, value: Mapping[str, Any]) -> Json:
    """As a client of this version sees it."""
    if kind.kind == "Event":
        value = {**_EMPTY_EVENT, **value}
    if kind.group == EVENTS:
        value = {_BACK.get(name, name): part for name, part in value.items() if name not in _LEFT_OUT or part}
    return {**value, "apiVersion": kind.group_version, "kind": kind.kind}


# Go writes them always.
_EMPTY_EVENT: Final[Json] = {
    "source": {}, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None, "reportingComponent": "",
    "reportingInstance": "",
}  # fmt: skip
_LEFT_OUT: Final = frozenset({"reportingComponent", "reportingInstance"})


def problems(kind: Kind, value: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[Cause]:
    """What may not change, or does not fit together; not all that kube-apiserver checks."""
    if kind.plural in {"resourceclaims", "resourceclaimtemplates"}:
        yield from _claim_problems(
            value["spec"], before["spec"] if before else None, is_template=kind.plural != "resourceclaims"
        )
    elif kind.plural == "events":
        about = value.get("involvedObject") or value.get("regarding") or {}
        namespace = about.get("namespace") or "default"
        if namespace != value["metadata"]["namespace"] and before is None:
            field = "regarding" if kind.group == EVENTS else "involvedObject"
            yield invalid_value(
                f"{field}.namespace", as_go(about.get("namespace", "")), "does not match event.namespace"
            )


def missing(kind: Kind, value: Mapping[str, Any]) -> Iterator[Cause]:
    return _missing(kind.schema, value, "")


def _missing(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    """Required fields. A number or a truth that is missing is zero to Go, and a struct is there, but empty."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _missing(items_of(schema), item, f"{path}[{number}]")
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        for name in schema.get("required") or ():
            if name not in value and known[name].get("type") not in {"boolean", "integer"}:
                yield required(below_path(path, name))
        structs: Json = {name: {} for name, part in known.items() if part.get("default") == {} and name not in value}
        for name, item in {**structs, **value}.items():
            below = part_of(schema, name)
            if below is not None and name not in {"metadata", "status"}:
                yield from _missing(followed(below), item, below_path(path, name))


def _claim_problems(spec: Json, before: Mapping[str, Any] | None, *, is_template: bool) -> Iterator[Cause]:
    if before is not None and spec != before:
        yield invalid_value("spec", as_go(spec), "field is immutable")
    path = "spec.spec" if is_template else "spec"
    devices = (spec.get("spec") or {} if is_template else spec).get("devices") or {}
    for number, request in enumerate(devices.get("requests") or ()):
        if not request.get("exactly") and not request.get("firstAvailable"):
            why = "exactly one of `exactly` or `firstAvailable` is required"
            yield required(f"{path}.devices.requests[{number}]", why)
