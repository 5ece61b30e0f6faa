"""The cells of Kubernetes' own kinds in tables, as kube-apiserver fills them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

Cells = Callable[[Mapping[str, Any]], Sequence[Any]]

_UNKNOWN: Final = "<unknown>"
_NONE: Final = "<none>"


def name_of(value: Mapping[str, Any]) -> str:
    return str(value["metadata"]["name"])


def _age(value: Mapping[str, Any]) -> str:
    return since(value["metadata"].get("creationTimestamp"))


def since(moment: str | None) -> str:
    if not moment:
        return _UNKNOWN
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return "<invalid>"
    return duration((datetime.now(UTC) - then.replace(tzinfo=then.tzinfo or UTC)).total_seconds())


def duration(seconds: float) -> str:
    """As kubectl shows it."""
    if seconds < -1:
        return "<invalid>"
    whole = max(int(seconds), 0)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d" if days < 730 else f"{days // 365}y"


def _pod(value: Mapping[str, Any]) -> Sequence[Any]:
    spec, status = value["spec"], value.get("status") or {}
    statuses = status.get("containerStatuses") or ()
    reason = status.get("reason") or status.get("phase", _UNKNOWN)
    for one in reversed(statuses):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended:
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
    if "deletionTimestamp" in value["metadata"]:
        reason = "Terminating"
    elif reason == "Pending" and _is_gated(status):
        reason = "SchedulingGated"
    ready = sum(bool(one.get("ready")) for one in statuses)
    restarts = sum(one.get("restartCount", 0) for one in statuses)
    return [
        name_of(value), f"{ready}/{len(spec.get('containers') or ())}", reason, str(restarts), _age(value),
        status.get("podIP", _NONE), spec.get("nodeName", _NONE), status.get("nominatedNodeName", _NONE), _NONE,
    ]  # fmt: skip


def _is_gated(status: Mapping[str, Any]) -> bool:
    return any(one.get("reason") == "SchedulingGated" for one in status.get("conditions") or ())


def _node(value: Mapping[str, Any]) -> Sequence[Any]:
    status = value.get("status") or {}
    info = status.get("nodeInfo") or {}
    ready = next((one["status"] for one in status.get("conditions") or () if one["type"] == "Ready"), None)
    state = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    if (value.get("spec") or {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    labels = value["metadata"].get("labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix)) or [_NONE]
    addresses = {one["type"]: one["address"] for one in status.get("addresses") or ()}
    return [
        name_of(value), state, ",".join(roles), _age(value), info.get("kubeletVersion", ""),
        addresses.get("InternalIP", _NONE), addresses.get("ExternalIP", _NONE), info.get("osImage") or _UNKNOWN,
        info.get("kernelVersion") or _UNKNOWN, info.get("containerRuntimeVersion") or _UNKNOWN,
    ]  # fmt: skip


def _event(value: Mapping[str, Any]) -> Sequence[Any]:
    about = value.get("involvedObject") or value.get("regarding") or {}
    first = value.get("firstTimestamp") or value.get("deprecatedFirstTimestamp") or value.get("eventTime")
    last = value.get("lastTimestamp") or value.get("deprecatedLastTimestamp") or first
    series = value.get("series") or {}
    count = series.get("count") or value.get("count") or value.get("deprecatedCount") or 1
    component = (value.get("source") or {}).get("component") or value.get("reportingComponent") or ""
    component = component or value.get("reportingController") or ""
    instance = (value.get("source") or {}).get("host") or value.get("reportingInstance") or ""
    target = f"{about.get('kind', '').lower()}/{about['name']}" if about.get("name") else about.get("kind", "").lower()
    text = value.get("message") or value.get("note") or ""
    return [
        since(series.get("lastObservedTime") or last), value.get("type", ""), value.get("reason", ""), target,
        about.get("fieldPath", ""), ", ".join(one for one in (component, instance) if one), text.strip(),
        since(first), str(count), name_of(value),
    ]  # fmt: skip


def _claim(value: Mapping[str, Any]) -> Sequence[Any]:
    status = value.get("status") or {}
    is_deleted, is_allocated = "deletionTimestamp" in value["metadata"], "allocation" in status
    states = [
        *(["deleted"] if is_deleted else []),
        *(["allocated"] if is_allocated else [] if is_deleted else ["pending"]),
        *(["reserved"] if is_allocated and status.get("reservedFor") else []),
    ]
    return [name_of(value), ",".join(states), _age(value)]


def _slice(value: Mapping[str, Any]) -> Sequence[Any]:
    spec = value["spec"]
    return [
        name_of(value),
        spec.get("nodeName", ""),
        spec["driver"],
        (spec.get("pool") or {}).get("name", ""),
        _age(value),
    ]


def _of_template(value: Mapping[str, Any]) -> Sequence[Any]:
    spec = value["spec"]
    containers = spec["template"]["spec"].get("containers") or ()
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return [
        ",".join(one["name"] for one in containers), ",".join(one.get("image", "") for one in containers),
        ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or _NONE,
    ]  # fmt: skip


def _daemon_set(value: Mapping[str, Any]) -> Sequence[Any]:
    status = value.get("status") or {}
    chosen = value["spec"]["template"]["spec"].get("nodeSelector") or {}
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(value), *(status.get(name, 0) for name in counts),
        ",".join(f"{key}={chosen[key]}" for key in sorted(chosen)) or _NONE, _age(value), *_of_template(value),
    ]  # fmt: skip


def _deployment(value: Mapping[str, Any]) -> Sequence[Any]:
    status = value.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{value['spec'].get('replicas', 1)}"
    return [
        name_of(value), ready, status.get("updatedReplicas", 0), status.get("availableReplicas", 0), _age(value),
        *_of_template(value),
    ]  # fmt: skip


def _quota(value: Mapping[str, Any]) -> Sequence[Any]:
    hard = (value.get("status") or {}).get("hard") or {}
    used = (value.get("status") or {}).get("used") or {}
    requests = [name for name in sorted(hard) if not name.startswith("limits.")]
    limits = [name for name in sorted(hard) if name.startswith("limits.")]
    shown = [", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names) for names in (requests, limits)]
    return [name_of(value), *shown, _age(value)]


def _policy(value: Mapping[str, Any]) -> Sequence[Any]:
    spec = value["spec"]
    kind = spec.get("paramKind")
    shown = f"{kind['apiVersion']}/{kind['kind']}" if kind else "<unset>"
    return [name_of(value), len(spec.get("validations") or ()), shown, _age(value)]


def _binding(value: Mapping[str, Any]) -> Sequence[Any]:
    spec = value["spec"]
    return [name_of(value), spec["policyName"], (spec.get("paramRef") or {}).get("name", "<unset>"), _age(value)]


def _role_binding(value: Mapping[str, Any]) -> Sequence[Any]:
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for one in value.get("subjects") or ():
        is_account = one["kind"] == "ServiceAccount"
        by_kind[one["kind"]].append(f"{one.get('namespace', '')}/{one['name']}" if is_account else one["name"])
    role = f"{value['roleRef']['kind']}/{value['roleRef']['name']}"
    return [name_of(value), role, _age(value), *(", ".join(names) for names in by_kind.values())]


def definition(value: Mapping[str, Any]) -> Sequence[Any]:
    spec, conditions = value["spec"], (value.get("status") or {}).get("conditions") or ()
    versions = sorted(f"{one['name']}{'(storage)' * one['storage']}" for one in spec["versions"] if one["served"])
    return [
        name_of(value), spec["scope"], ",".join(versions), value["metadata"].get("creationTimestamp", ""),
        spec["group"], spec["names"]["kind"], ",".join(spec["names"].get("shortNames") or ()),
        any(one["type"] == "Established" and one["status"] == "True" for one in conditions),
    ]  # fmt: skip


def _disruption_budget(value: Mapping[str, Any]) -> Sequence[Any]:
    spec, status = value.get("spec") or {}, value.get("status") or {}
    bounds = (str(spec.get(name, "N/A")) for name in ("minAvailable", "maxUnavailable"))
    return [name_of(value), *bounds, status.get("disruptionsAllowed", 0), _age(value)]


def _taint_rule(value: Mapping[str, Any]) -> Sequence[Any]:
    taint = value["spec"]["taint"]
    added = since(taint["timeAdded"]) if "timeAdded" in taint else ""
    return [name_of(value), taint.get("key", ""), taint.get("value", ""), taint.get("effect", ""), added, _age(value)]


def _of(*parts: Callable[[Mapping[str, Any]], Any]) -> Cells:
    return lambda value: [name_of(value), *(part(value) for part in parts), _age(value)]


def _count(*fields: str) -> Callable[[Mapping[str, Any]], int]:
    return lambda value: sum(len(value.get(field) or ()) for field in fields)


# In the order of the columns, which are kube-apiserver's. Kinds that are not here show when they were made.
CELLS: Final[Mapping[str, Cells]] = {
    "ClusterRoleBinding": _role_binding,
    "ConfigMap": _of(_count("data", "binaryData")),
    "DaemonSet": _daemon_set,
    "Deployment": _deployment,
    "DeviceClass": _of(),
    "DeviceTaintRule": _taint_rule,
    "Event": _event,
    "Lease": _of(lambda value: value["spec"].get("holderIdentity", "")),
    "Namespace": _of(lambda value: (value.get("status") or {}).get("phase", "")),
    "Node": _node,
    "Pod": _pod,
    "PodDisruptionBudget": _disruption_budget,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _of(),
    "ResourceQuota": _quota,
    "ResourceSlice": _slice,
    "RoleBinding": _role_binding,
    "Secret": _of(lambda value: value.get("type", ""), _count("data")),
    "ServiceAccount": _of(),
    "ValidatingAdmissionPolicy": _policy,
    "ValidatingAdmissionPolicyBinding": _binding,
}
