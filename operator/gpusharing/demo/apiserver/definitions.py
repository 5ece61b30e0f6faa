"""CustomResourceDefinitions: what they lack by default, what their status says, and the kinds that they define."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpusharing import cel
from gpusharing.cel.expressions import expression
from gpusharing.demo.apiserver.errors import Cause, invalid_value, not_implemented, required
from gpusharing.demo.apiserver.garbage import CRDS
from gpusharing.demo.apiserver.kinds import OBJECT_META, PREFIX, Kind
from gpusharing.demo.apiserver.kinds import definitions as known

__all__ = ["CRDS", "METADATA", "established", "kinds_of", "problems", "with_defaults"]

Json = dict[str, Any]

_AGE: Final = {
    "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
    "description": "CreationTimestamp is a timestamp representing the server time when this object was created.",
}  # fmt: skip


METADATA: Final = {"$ref": PREFIX + OBJECT_META}


def with_defaults(definition: Json) -> Json:
    spec = dict(definition["spec"])
    names = dict(spec["names"])
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec["names"] = names
    spec.setdefault("conversion", {"strategy": "None"})
    return {**definition, "spec": spec}


def established(definition: Json, now: str) -> Json:
    """With the status that other servers give it in the course of a moment."""
    status = definition.get("status") or {}
    before = {one["type"]: one for one in status.get("conditions") or ()}
    conditions = [
        before.get(kind) or {
            "type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message,
        }
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]  # fmt: skip
    spec = definition["spec"]
    stored = [one["name"] for one in spec["versions"] if one.get("storage")]
    kept = [name for name in status.get("storedVersions") or () if name not in stored]
    return {
        **definition,
        "status": {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": [*kept, *stored]},
    }


def problems(definition: Mapping[str, Any]) -> Iterator[Cause]:
    spec = definition["spec"]
    name, wanted = definition["metadata"]["name"], f"{spec['names']['plural']}.{spec['group']}"
    if name != wanted:
        yield invalid_value("metadata.name", f'"{name}"', 'must be spec.names.plural+"."+spec.group')
    if spec["conversion"].get("strategy") != "None":
        raise not_implemented("conversion of a CustomResourceDefinition by a webhook")
    for number, version in enumerate(spec["versions"]):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        path = f"spec.versions[{number}].schema.openAPIV3Schema"
        if schema is None:
            yield required(path, "schemas are required")
        else:
            yield from _of_rules(schema, path)


def _of_rules(schema: Any, path: str) -> Iterator[Cause]:
    for number, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        variables = ("self", "oldSelf") if "oldSelf" in rule["rule"] else ("self",)
        try:
            expression(rule["rule"], variables)
        except cel.CompileError as error:
            where = f"{path}.x-kubernetes-validations[{number}].rule"
            yield invalid_value(where, f'"{rule["rule"]}"', f"compilation failed: {error}")
    for name, part in (schema.get("properties") or {}).items():
        yield from _of_rules(part, f"{path}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _of_rules(schema[name], f"{path}.{name}")


def kinds_of(definition: Mapping[str, Any]) -> tuple[Kind, ...]:
    """Those that are served, the one that is stored first."""
    spec = definition["spec"]
    names = spec["names"]
    served = sorted((one for one in spec["versions"] if one["served"]), key=lambda one: not one.get("storage"))
    return tuple(
        Kind(
            spec["group"], version["name"], names["kind"], names["plural"], names["singular"],
            spec["scope"] == "Namespaced",
            _complete(version["schema"]["openAPIV3Schema"], spec["group"], version["name"], names["kind"]),
            names["listKind"], tuple(names.get("shortNames") or ()), tuple(names.get("categories") or ()),
            subresources=tuple(version.get("subresources") or ()),
            columns=tuple(version.get("additionalPrinterColumns") or (_AGE,)),
            is_custom=True,
            selectable=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
        )
        for version in served
    )  # fmt: skip


def _complete(schema: Json, group: str, version: str, kind: str) -> Json:
    """With the fields that all objects have."""
    common = known().schemas[_EXAMPLE]["properties"]
    properties = {**(schema.get("properties") or {}), **{name: common[name] for name in _COMMON}}
    named = [{"group": group, "version": version, "kind": kind}]
    return {**schema, "properties": properties, "x-kubernetes-group-version-kind": named}


_COMMON: Final = ("apiVersion", "kind", "metadata")
_EXAMPLE: Final = "io.k8s.api.core.v1.Namespace"
