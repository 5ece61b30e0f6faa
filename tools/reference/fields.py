"""docs/reference/policies.md: every field of our kinds, from the schemas of their CustomResourceDefinitions."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpusharing.api import crd
from reference.tables import cell, heading, table

Schema = Mapping[str, Any]

_HEAD: Final = """\
<!-- Generated from operator/gpusharing/api by `make generate`; do not edit. -->
# Fields of policies and nodes

Every field of a `SharingPolicy`, and of the `NodeSharing` of each node. `kubectl explain` says the same in a terminal:
`kubectl explain sharingpolicy.spec.offers.timeSlicing`. [policies.md](../policies.md) says how to write a policy and
what an edit does; [conditions.md](conditions.md) has the conditions and reasons.

`[]` after a name is a list, `{}` a map. A field is optional unless its type says *required*.
"""
_MAP: Final = "{}"
_LIMITS: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " entries"),
    ("minProperties", "maxProperties", " entries"),
)


def page() -> str:
    parts = [_HEAD]
    for definition in crd.DEFINITIONS:
        [version] = crd.to_crd(definition)["spec"]["versions"]
        schema = version["schema"]["openAPIV3Schema"]
        parts.append(heading(2, definition.kind))
        parts.append(f"{schema['description']} Short name: `{definition.short_name}`.\n")
        for part in ("spec", "status"):
            parts += _part(definition.kind, part, schema["properties"][part])
    return "\n".join(parts).rstrip() + "\n"


def _part(kind: str, part: str, schema: Schema) -> Iterator[str]:
    yield heading(3, f"{kind}.{part}")
    fields = list(_fields(schema, ""))
    yield table(
        ("field", "type", "meaning"), [(f"`{name}`", _type(one), cell(one["description"])) for name, one in fields]
    )
    rules = list(dict.fromkeys(_rules(schema, "")))
    if rules:
        yield "The API server also checks:\n"
        yield "".join(f"- {rule}\n" for rule in rules)


def _fields(schema: Schema, prefix: str) -> Iterator[tuple[str, Schema]]:
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        described = {**one, "isRequired": name in required}
        item = one.get("items") or one.get("additionalProperties")
        if item:
            path += "[]" if "items" in one else _MAP
            yield path, described | {"isRequired": name in required}
            yield from _fields(item, f"{path}.")
        else:
            yield path, described
            yield from _fields(one, f"{path}.")


def _type(schema: Schema) -> str:
    item = schema.get("items") or schema.get("additionalProperties")
    words = [_kind(schema)]
    if schema.get("isRequired"):
        words.append("required")
    for one in (schema, item or {}):
        if "enum" in one:
            words.append("one of " + ", ".join(f"`{value}`" for value in one["enum"]))
        words += [limit + (" each" if one is item else "") for limit in _limits(one)]
    if "default" in schema:
        default = schema["default"]
        words.append(f"default `{str(default).lower() if isinstance(default, bool) else default}`")
    return "; ".join(words)


def _limits(schema: Schema) -> Iterator[str]:
    for least, most, unit in _LIMITS:
        match schema.get(least), schema.get(most):
            case int(low), int(high):
                yield f"{low:,} to {high:,}{unit}"
            case int(low), None:
                yield f"at least {low:,}{unit}"
            case None, int(high):
                yield f"at most {high:,}{unit}"
    if "pattern" in schema:
        pattern = schema["pattern"].replace("|", "\\|")
        yield f"must match `{pattern}`"


def _kind(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "number or string"
    if "items" in schema:
        return f"list of {_kind(schema['items'])}s"
    if "additionalProperties" in schema:
        return f"map of {_kind(schema['additionalProperties'])}s"
    return {"date-time": "time"}.get(schema.get("format", ""), str(schema.get("type", "object")))


def _rules(schema: Schema, path: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield f"`{path}`: {rule['message']}." if path else f"{rule['message']}."
    for name, one in schema.get("properties", {}).items():
        yield from _rules(one, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from _rules(schema["items"], f"{path}[]")
