"""What `kubectl get` prints: tables, with the columns of kube-apiserver or of a CRD."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpusharing.demo.apiserver import cells
from gpusharing.demo.apiserver.kinds import OBJECT_META, Kind, definitions

Json = dict[str, Any]


def table(kind: Kind, values: Sequence[Json], metadata: Json, include: str) -> Json:
    """`include`: what of the objects is in the rows: None, Metadata or Object."""
    columns, shown = _columns(kind)
    return {
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns,
        "rows": [{"cells": list(shown(value)), "object": _included(value, include)} for value in values],
    }  # fmt: skip


def _included(value: Json, include: str) -> Any:
    if include == "Object":
        return value
    if include == "None":
        return None
    return partial(value)


def partial(value: Mapping[str, Any]) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]}


def _columns(kind: Kind) -> tuple[list[Json], cells.Cells]:
    if kind.is_custom:
        columns = [_NAME, *(_column_of_crd(one) for one in kind.columns)]
        paths = [(one["jsonPath"], one["type"]) for one in kind.columns]
        return columns, lambda value: [cells.name_of(value), *(_cell_of_crd(value, *one) for one in paths)]
    shown = cells.CELLS.get(kind.kind)
    if kind.kind == "CustomResourceDefinition":
        return _OF_DEFINITIONS, cells.definition
    if shown is None:
        return [_NAME, _CREATED], lambda value: [cells.name_of(value), value["metadata"].get("creationTimestamp", "")]
    return [dict(one) for one in kind.columns], shown


def _described(field: str) -> str:
    return str(definitions().schemas[OBJECT_META]["properties"][field]["description"])


_NAME: Final[Json] = {
    "name": "Name", "type": "string", "format": "name", "priority": 0, "description": _described("name"),
}  # fmt: skip
_CREATED: Final[Json] = {
    "name": "Created At", "type": "date", "format": "", "priority": 0, "description": _described("creationTimestamp"),
}  # fmt: skip


def _column(name: str, type_: str, priority: int, description: str) -> Json:
    return {"name": name, "type": type_, "format": "", "priority": priority, "description": description}


_OF_DEFINITIONS: Final[list[Json]] = [
    _NAME,
    _column("Scope", "string", 0, "Cluster/Namespaced"),
    _column("Versions", "string", 0, "Served versions"),
    _CREATED,
    _column("Group", "string", 1, "API group"),
    _column("Kind", "string", 1, "CustomResource kind"),
    _column("ShortNames", "string", 1, "Short names"),
    _column("Established", "boolean", 1, "Established status"),
]


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
            return cells.since(one) if isinstance(one, str) else "<invalid>"
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
