"""What `kubectl get` prints: tables, with the columns of kube-apiserver or of a CRD."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gpusharing.demo.apiserver.kinds import OBJECT_META, Kind, definitions

Json = dict[str, Any]
Cells = Callable[[Mapping[str, Any]], Sequence[Any]]

_UNKNOWN: Final = "<unknown>"
_NONE: Final = "<none>"


def table(kind: Kind, values: Sequence[Json], metadata: Json, include: str) -> Json:
    """`include`: what of the objects is in the rows: None, Metadata or Object."""
    columns, cells = _columns(kind)
    return {
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns,
        "rows": [{"cells": list(cells(value)), "object": _included(value, include)} for value in values],
    }  # fmt: skip


def _included(value: Json, include: str) -> Any:
    if include == "Object":
        return value
    if include == "None":
        return None
    return partial(value)


def partial(value: Mapping[str, Any]) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]}


def _columns(kind: Kind) -> tuple[list[Json], Cells]:
    if kind.is_custom:
        columns = [_NAME, *(_column_of_crd(one) for one in kind.columns)]
        paths = [(one["jsonPath"], one["type"]) for one in kind.columns]
        return columns, lambda value: [_name(value), *(_cell_of_crd(value, *one) for one in paths)]
    cells = _CELLS.get(kind.kind)
    if cells is None:
        return [_NAME, _CREATED], lambda value: [_name(value), value["metadata"].get("creationTimestamp", "")]
    return [dict(one) for one in kind.columns], cells


def _described(field: str) -> str:
    return str(definitions().schemas[OBJECT_META]["properties"][field]["description"])


_NAME: Final[Json] = {
    "name": "Name", "type": "string", "format": "name", "priority": 0, "description": _described("name"),
}  # fmt: skip
_CREATED: Final[Json] = {
    "name": "Created At", "type": "date", "format": "", "priority": 0, "description": _described("creationTimestamp"),
}  # fmt: skip


def _column_of_crd(column: Mapping[str, Any]) -> Json:
    description = column.get("description") or (
        f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    )
    return {
        "name": column["name"], "type": column["type"], "format": column.get("format", ""),
        "description": description, "priority": column.get("priority", 0),
    }  # fmt: skip


_STEP: Final = re.compile(
    r"\.?([\w-]+(?:\\\.[\w-]+)*)|\['([^']+)'\]|\[(\d+|\*)\]|\[\?\(@\.([\w.]+)\s*==\s*['\"]([^'\"]*)['\"]\)\]"
)


def json_path(value: Any, path: str) -> list[Any]:
    """All values at a path, as far as columns and `wait` use it. What it cannot read finds nothing."""
    found, place = [value], 0
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            return []
        place = step.end()
        name, quoted, number, field, wanted = step.groups()
        name = name.replace("\\.", ".") if name else quoted
        following: list[Any] = []
        for one in found:
            if name and isinstance(one, dict) and name in one:
                following.append(one[name])
            elif isinstance(one, list) and not name:
                if number == "*":
                    following += one
                elif number is not None:
                    following += one[int(number) : int(number) + 1]
                else:
                    following += [item for item in one if [wanted] == [str(x) for x in json_path(item, f".{field}")]]
        found = following
    return found


def _cell_of_crd(value: Mapping[str, Any], path: str, type_: str) -> Any:
    found = json_path(value, path)
    if not found:
        return None
    one = found[0]
    match type_:
        case "string":
            return _text(found)
        case "date":
            return _since(one) if isinstance(one, str) else "<invalid>"
        case "integer":
            return int(one) if isinstance(one, int | float) else None
        case "number":
            return float(one) if isinstance(one, int | float) else None
        case _:
            return one


def _text(found: Sequence[Any]) -> str:
    one = found[0]
    if isinstance(one, bool):
        return "true" if one else "false"
    return one if isinstance(one, str) else json.dumps(one, separators=(",", ":"))


def _name(value: Mapping[str, Any]) -> str:
    return str(value["metadata"]["name"])


def _age(value: Mapping[str, Any]) -> str:
    return _since(value["metadata"].get("creationTimestamp"))


def _since(moment: str | None) -> str:
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
        _name(value), f"{ready}/{len(spec.get('containers') or ())}", reason, str(restarts), _age(value),
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
        _name(value), state, ",".join(roles), _age(value), info.get("kubeletVersion", ""),
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
        _since(series.get("lastObservedTime") or last), value.get("type", ""), value.get("reason", ""), target,
        about.get("fieldPath", ""), ", ".join(one for one in (component, instance) if one), text.strip(),
        _since(first), str(count), _name(value),
    ]  # fmt: skip


def _claim(value: Mapping[str, Any]) -> Sequence[Any]:
    status = value.get("status") or {}
    is_deleted, is_allocated = "deletionTimestamp" in value["metadata"], "allocation" in status
    states = [
        *(["deleted"] if is_deleted else []),
        *(["allocated"] if is_allocated else [] if is_deleted else ["pending"]),
        *(["reserved"] if is_allocated and status.get("reservedFor") else []),
    ]
    return [_name(value), ",".join(states), _age(value)]


def _slice(value: Mapping[str, Any]) -> Sequence[Any]:
    spec = value["spec"]
    return [
        _name(value),
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
        _name(value), *(status.get(name, 0) for name in counts),
        ",".join(f"{key}={chosen[key]}" for key in sorted(chosen)) or _NONE, _age(value), *_of_template(value),
    ]  # fmt: skip


def _deployment(value: Mapping[str, Any]) -> Sequence[Any]:
    status = value.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{value['spec'].get('replicas', 1)}"
    return [
        _name(value), ready, status.get("updatedReplicas", 0), status.get("availableReplicas", 0), _age(value),
        *_of_template(value),
    ]  # fmt: skip


def _quota(value: Mapping[str, Any]) -> Sequence[Any]:
    hard = (value.get("status") or {}).get("hard") or {}
    used = (value.get("status") or {}).get("used") or {}
    requests = [name for name in sorted(hard) if not name.startswith("limits.")]
    limits = [name for name in sorted(hard) if name.startswith("limits.")]
    shown = [", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names) for names in (requests, limits)]
    return [_name(value), *shown, _age(value)]


def _policy(value: Mapping[str, Any]) -> Sequence[Any]:
    spec = value["spec"]
    kind = spec.get("paramKind")
    shown = f"{kind['apiVersion']}/{kind['kind']}" if kind else "<unset>"
    return [_name(value), len(spec.get("validations") or ()), shown, _age(value)]


def _binding(value: Mapping[str, Any]) -> Sequence[Any]:
    spec = value["spec"]
    return [_name(value), spec["policyName"], (spec.get("paramRef") or {}).get("name", "<unset>"), _age(value)]


def _role_binding(value: Mapping[str, Any]) -> Sequence[Any]:
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for one in value.get("subjects") or ():
        is_account = one["kind"] == "ServiceAccount"
        by_kind[one["kind"]].append(f"{one.get('namespace', '')}/{one['name']}" if is_account else one["name"])
    role = f"{value['roleRef']['kind']}/{value['roleRef']['name']}"
    return [_name(value), role, _age(value), *(", ".join(names) for names in by_kind.values())]


def _disruption_budget(value: Mapping[str, Any]) -> Sequence[Any]:
    spec, status = value.get("spec") or {}, value.get("status") or {}
    bounds = (str(spec.get(name, "N/A")) for name in ("minAvailable", "maxUnavailable"))
    return [_name(value), *bounds, status.get("disruptionsAllowed", 0), _age(value)]


def _taint_rule(value: Mapping[str, Any]) -> Sequence[Any]:
    taint = value["spec"]["taint"]
    added = _since(taint["timeAdded"]) if "timeAdded" in taint else ""
    return [_name(value), taint.get("key", ""), taint.get("value", ""), taint.get("effect", ""), added, _age(value)]


def _of(*parts: Callable[[Mapping[str, Any]], Any]) -> Cells:
    return lambda value: [_name(value), *(part(value) for part in parts), _age(value)]


def _count(*fields: str) -> Callable[[Mapping[str, Any]], int]:
    return lambda value: sum(len(value.get(field) or ()) for field in fields)


# In the order of the columns, which are kube-apiserver's. Kinds that are not here show when they were made.
_CELLS: Final[Mapping[str, Cells]] = {
    "ClusterRoleBinding": _role_binding,
    "ConfigMap": _of(lambda value: str(_count("data", "binaryData")(value))),
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
    "Secret": _of(lambda value: value.get("type", ""), lambda value: str(_count("data")(value))),
    "ServiceAccount": _of(),
    "ValidatingAdmissionPolicy": _policy,
    "ValidatingAdmissionPolicyBinding": _binding,
}
