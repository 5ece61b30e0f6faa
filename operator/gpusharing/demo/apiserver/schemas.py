"""What a schema makes of an object before it is checked: unknown fields go, and defaults come."""

from copy import deepcopy
from typing import Any, Final

from gpusharing.demo.apiserver.kinds import Schema, followed, items_of, part_of

_KEEPS_ALL: Final = "x-kubernetes-preserve-unknown-fields"


def pruned(schema: Schema, value: Any, path: str = "") -> tuple[Any, list[str]]:
    """The value without fields that are not in the schema, and the paths of these. Nulls stand for absent fields."""
    unknown: list[str] = []
    return _pruned(schema, value, path, unknown), unknown


def _pruned(schema: Schema, value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        items = items_of(schema)
        return [_pruned(items, item, f"{path}[{number}]", unknown) for number, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    is_open = schema.get(_KEEPS_ALL) or ("properties" not in schema and "additionalProperties" not in schema)
    kept: dict[str, Any] = {}
    for name, part in value.items():
        below = part_of(schema, name)
        where = f"{path}.{name}" if path else name
        if below is None:
            if is_open or schema.get("additionalProperties") is True:
                kept[name] = part
            else:
                unknown.append(where)
        elif part is None and not below.get("nullable") and "type" in followed(below):
            continue
        else:
            kept[name] = _pruned(followed(below), part, where, unknown)
    return kept


def with_defaults(schema: Schema, value: Any) -> Any:
    """Of a CRD's schema."""
    if isinstance(value, list):
        items = items_of(schema)
        return [with_defaults(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, part in schema.get("properties", {}).items():
        if "default" in part and (name not in filled or (filled[name] is None and not part.get("nullable"))):
            filled[name] = deepcopy(part["default"])
    for name, item in filled.items():
        below = part_of(schema, name)
        # The metadata is of Kubernetes' own making: what its schema says of defaults are zero values of Go.
        if below is not None and "x-kubernetes-group-version-kind" not in below and name != "metadata":
            filled[name] = with_defaults(below, item)
    return filled


def without_empty(schema: Schema, value: Any) -> Any:
    """Without empty lists and maps that nobody asks for, which Go does not write; an empty struct is something."""
    if isinstance(value, list):
        items = items_of(schema)
        return [without_empty(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, item in value.items():
        below = followed(part_of(schema, name) or {})
        is_collection = "items" in below or "additionalProperties" in below
        if item not in ({}, []) or not is_collection or name in schema.get("required", ()):
            kept[name] = without_empty(below, item)
    return kept
