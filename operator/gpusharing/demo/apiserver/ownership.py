"""Who manages which fields: metadata.managedFields, kept at each write, and server-side apply, which goes by them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from gpusharing.demo.apiserver import fields
from gpusharing.demo.apiserver.errors import StatusError
from gpusharing.demo.apiserver.fields import Paths
from gpusharing.demo.apiserver.kinds import Schema

Json = dict[str, Any]

APPLY: Final = "Apply"
UPDATE: Final = "Update"
_KUBECTL: Final = "kubectl"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
# Nobody manages what the API server itself writes.
_UNMANAGED: Final = frozenset(
    {"f:name", "f:namespace", "f:creationTimestamp", "f:selfLink", "f:uid", "f:generation", "f:managedFields",
     "f:resourceVersion", "f:deletionTimestamp", "f:deletionGracePeriodSeconds"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Manager:
    name: str
    operation: str
    api_version: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Managed:
    time: str
    paths: Paths


Managers: TypeAlias = dict[Manager, Managed]


def read(value: Mapping[str, Any]) -> Managers:
    return {
        Manager(
            one.get("manager", ""), one.get("operation", ""), one.get("apiVersion", ""), one.get("subresource", "")
        ): Managed(one.get("time", ""), frozenset(fields.from_fields_v1(one.get("fieldsV1") or {})))
        for one in value["metadata"].get("managedFields") or ()
    }


def written(value: Json, managers: Managers) -> Json:
    """The object with these managers."""
    entries = [
        {
            "manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version,
            "time": managed.time, "fieldsType": "FieldsV1", "fieldsV1": fields.as_fields_v1(managed.paths),
            **({"subresource": manager.subresource} if manager.subresource else {}),
        }
        for manager, managed in sorted(managers.items(), key=_order)
        if managed.paths
    ]  # fmt: skip
    metadata = {name: part for name, part in value["metadata"].items() if name != "managedFields"}
    return {**value, "metadata": metadata | ({"managedFields": entries} if entries else {})}


def _order(entry: tuple[Manager, Managed]) -> tuple[bool, str, str]:
    """Those that apply come first, then by time."""
    manager, managed = entry
    return manager.operation != APPLY, managed.time, manager.name


def updated(schema: Schema, before: Json | None, after: Json, manager: Manager, now: str) -> Json:
    """What an ordinary write makes: who changes a field manages it, and nobody else does any more."""
    managers = read(after)
    before = before or {"metadata": {}}
    changed, removed = _without_unmanaged(fields.difference(schema, before, after))
    for other, managed in list(managers.items()):
        if other != manager:
            managers[other] = replace(managed, paths=managed.paths - changed - removed)
    mine = managers.get(manager, Managed(now, frozenset()))
    paths = (mine.paths | changed) - removed
    if changed or paths != mine.paths:
        managers[manager] = Managed(now, paths)
    return written(after, managers)


def applied(schema: Schema, before: Json | None, config: Json, manager: Manager, now: str, *, force: bool) -> Json:
    """What an apply makes of an object. Raises StatusError (409) for fields of others."""
    live = before or {"metadata": {}}
    managers = read(live)
    config = {**config, "metadata": {k: v for k, v in config["metadata"].items() if k != "managedFields"}}
    wanted = _manageable(fields.paths_of(schema, config))
    last = managers.get(manager)
    after = fields.merged(schema, live, config)
    others = {one: managed for one, managed in managers.items() if one != manager}
    changed = _without_unmanaged(fields.difference(schema, live, after)).changed
    conflicts = {one: found for one, managed in others.items() if (found := managed.paths & changed)}
    allowed = _applied_by_client(schema, live) if manager.name == _KUBECTL else frozenset()
    refused = {one: left for one, found in conflicts.items() if (left := found - allowed)}
    if refused and not force:
        raise _conflict(refused)
    for one, found in conflicts.items():
        others[one] = replace(others[one], paths=others[one].paths - found)
    if last is not None:
        kept = fields.prefixes(wanted).union(*(fields.prefixes(managed.paths) for managed in others.values()))
        after = fields.without(schema, after, fields.prefixes(last.paths) - kept - {("f:metadata",)})
    is_same = last is not None and last.paths == wanted
    others[manager] = last if is_same and last else Managed(now, wanted)
    return written(after, others)


def _applied_by_client(schema: Schema, live: Mapping[str, Any]) -> Paths:
    """What `kubectl apply` has applied the other way before, as far as it is still so: it may be taken over."""
    try:
        last = json.loads((live["metadata"].get("annotations") or {}).get(_LAST_APPLIED, ""))
    except ValueError:
        return frozenset()
    return fields.paths_of(schema, last) - fields.difference(schema, live, fields.merged(schema, live, last)).changed


def _without_unmanaged(found: fields.Difference) -> fields.Difference:
    return fields.Difference(_manageable(found.changed), _manageable(found.removed))


def _manageable(paths: Paths) -> Paths:
    return frozenset(
        path
        for path in paths
        if path[0] not in {"f:apiVersion", "f:kind"}
        and path != ("f:metadata",)
        and not (path[0] == "f:metadata" and path[1] in _UNMANAGED)
    )


def _conflict(conflicts: Mapping[Manager, Paths]) -> StatusError:
    found = sorted(((_shown(manager), fields.shown(path)) for manager, paths in conflicts.items() for path in paths))
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in found
    ]
    if len(found) == 1:
        message = f"Apply failed with 1 conflict: conflict with {found[0][0]}: {found[0][1]}"
    else:
        lines = []
        for manager in dict.fromkeys(manager for manager, _ in found):
            lines += [f"conflicts with {manager}:", *(f"- {path}" for other, path in found if other == manager)]
        message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return StatusError(409, message, details={"causes": causes})


def _shown(manager: Manager) -> str:
    text = json.dumps(manager.name)
    if manager.subresource:
        text += f" with subresource {json.dumps(manager.subresource)}"
    return f"{text} using {manager.api_version}" if manager.operation == UPDATE else text
