"""From what a client sends to what is stored: compared with the path, cleaned, with defaults, and checked."""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from gpusharing.demo.apiserver import admission, builtin, definitions, metadata, schemas, validation
from gpusharing.demo.apiserver.errors import StatusError, as_go, bad_request, invalid, invalid_value
from gpusharing.demo.apiserver.kinds import GROUP_VERSION_KIND, Kind
from gpusharing.demo.apiserver.kinds import definitions as known

Json = dict[str, Any]

_NOT_FOR_CLIENTS: Final = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")


def read(kind: Kind, namespace: str, name: str, body: Any) -> Json:
    """A copy that names its kind and its place. `name`: of the path; none where objects are made."""
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized: it is not an object")
    value = deepcopy(body)
    said = value.setdefault("apiVersion", kind.group_version), value.setdefault("kind", kind.kind)
    if said != (kind.group_version, kind.kind):
        raise bad_request(
            f'{said[1]} in version "{str(said[0]).rpartition("/")[2]}" cannot be handled as a {kind.kind}: '
            f"{_why_not(kind, *map(str, said))}"
        )
    about = value["metadata"] = _metadata(value.get("metadata"))
    if name and about.setdefault("name", name) != name:
        raise bad_request(f"the name of the object ({about['name']}) does not match the name on the URL ({name})")
    if not kind.namespaced:
        about.pop("namespace", None)
    elif about.setdefault("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return value


def _why_not(kind: Kind, api_version: str, name: str) -> str:
    """In Go's own words."""
    group, _, version = api_version.rpartition("/")
    wanted = {"group": group, "version": version, "kind": name}
    if any(wanted in schema.get(GROUP_VERSION_KIND, ()) for schema in known().schemas.values()):
        internal = kind.group.partition(".")[0] or "core"
        return f"converting ({version}.{name}) to ({internal}.{kind.kind}): unknown conversion"
    return f'no kind "{name}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'


def _metadata(given: Any) -> Json:
    """Without what is empty: Go does not write that."""
    if given is not None and not isinstance(given, dict):
        raise bad_request("the object provided is unrecognized: its metadata is not an object")
    return {name: part for name, part in (given or {}).items() if part not in (None, "", [], {})}


def check_applied(kind: Kind, value: Json) -> None:
    """Whoever applies must name known fields, whatever they say of validation. Raises StatusError."""
    _, unknown = schemas.pruned(kind.schema, value)
    if unknown:
        about = value["metadata"]
        where = f"{about.get('namespace', '')}/{about.get('name', '')}; {kind.group}/{kind.version}, Kind={kind.kind}"
        faults = [f".{path}: field not declared in schema" for path in unknown]
        shown = faults[0] if len(faults) == 1 else "errors:" + "".join(f"\n  {one}" for one in faults)
        raise StatusError(500, f"failed to create typed patch object ({where}): {shown}", reason="")


def check_patched(kind: Kind, value: Any, field_validation: str) -> None:
    """Raises StatusError for unknown fields in what a patch makes, for those who are strict."""
    if field_validation == "Strict" and isinstance(value, dict):
        _, unknown = schemas.pruned(kind.schema, value)
        if unknown:
            faults = ", ".join(f'unknown field "{path}"' for path in sorted(unknown))
            shown = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
            raise invalid("", "", "", [invalid_value("patch", as_go(shown), f"strict decoding error: {faults}")])


def cleaned(kind: Kind, value: Json, field_validation: str) -> tuple[Json, list[str]]:
    """As it is stored, without unknown fields, and the warnings about these. Raises StatusError."""
    value, unknown = schemas.pruned(kind.schema, value)
    complaints = [f'unknown field "{path}"' for path in sorted(unknown)]
    if complaints and field_validation == "Strict":
        raise _unreadable(kind, f"strict decoding error: {', '.join(complaints)}")
    if not kind.is_custom:
        for wrong in validation.wrong_types(kind.schema, value):
            raise _unreadable(kind, f"{wrong.field}: {wrong.message}")
    else:
        for wrong in validation.wrong_types(definitions.METADATA, value["metadata"]):
            raise _unreadable(kind, f"metadata.{wrong.field}: {wrong.message}")
    if not kind.is_custom:
        value = schemas.without_empty(kind.schema, value)
    return builtin.stored(kind, value), complaints if field_validation == "Warn" else []


def _unreadable(kind: Kind, why: str) -> StatusError:
    return bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')


def of_new(kind: Kind, value: Json, uid: str, now: str) -> Json:
    about = {name: part for name, part in value["metadata"].items() if name not in _NOT_FOR_CLIENTS}
    about |= {"uid": uid, "creationTimestamp": now}
    if kind.has_generation:
        about["generation"] = 1
    value = {**value, "metadata": about}
    if not kind.takes_status_at_creation:
        value.pop("status", None)
    if (status := builtin.status_of_new(kind)) is not None:
        value["status"] = status
    return with_defaults(kind, value, is_new=True)


def with_defaults(kind: Kind, value: Json, *, is_new: bool) -> Json:
    """Raises StatusError for an object of Kubernetes' own kinds that lacks what it cannot be without."""
    if kind.is_custom:
        filled: Json = schemas.with_defaults(kind.schema, value)
        return filled
    if causes := list(builtin.missing(kind, builtin.served(kind, value))):
        raise invalid(kind.group, kind.kind, value["metadata"].get("name", ""), causes)
    if kind.stored_as == definitions.CRDS:
        return definitions.established(definitions.with_defaults(value), value["metadata"]["creationTimestamp"])
    return builtin.with_defaults(kind, value, is_new=is_new)


def as_served_now(kind: Kind, value: Json) -> Json:
    """An object that was stored before its definition changed."""
    kept, _ = schemas.pruned(kind.schema, value)
    return with_defaults(kind, kept, is_new=False)


def check(kind: Kind, value: Json, before: Mapping[str, Any] | None) -> None:
    """Raises StatusError for all that is wrong with it."""
    causes = list(metadata.problems(kind, value["metadata"], before and before["metadata"]))
    if "name" not in value["metadata"]:
        raise invalid(kind.group, kind.kind, "", causes)
    if kind.is_custom:
        causes += validation.causes(kind.schema, value, before)
    else:
        causes += builtin.problems(kind, builtin.served(kind, value), before)
        if kind.stored_as == definitions.CRDS:
            causes += definitions.problems(value)
        elif kind.stored_as == admission.POLICIES:
            causes += admission.problems(value)
    if causes:
        raise invalid(kind.group, kind.kind, value["metadata"].get("name", ""), causes)


def has_changed(kind: Kind, before: Json, after: Json) -> bool:
    """Whether it is another generation."""
    ignored = {"metadata", "status"} if not kind.is_custom or "status" in kind.subresources else {"metadata"}
    return _without(before, ignored) != _without(after, ignored)


def is_same(before: Json, after: Json) -> bool:
    """Whether a write changes nothing; times of managers do not count."""
    if _without(before, {"metadata"}) != _without(after, {"metadata"}):
        return False
    old, new = before["metadata"], after["metadata"]
    return _without(old, {"managedFields"}) == _without(new, {"managedFields"}) and _timeless(old) == _timeless(new)


def _without(value: Json, names: set[str]) -> Json:
    return {name: part for name, part in value.items() if name not in names}


def _timeless(about: Json) -> list[Json]:
    return [_without(one, {"time"}) for one in about.get("managedFields") or ()]
