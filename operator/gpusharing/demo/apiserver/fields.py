"""Which fields an object has, as sets of paths: what managedFields keep, and how two objects differ.

A path is a tuple of elements as fieldsV1 writes them: `f:name` (a field), `k:{...}` (an item of a list, by its keys),
`v:...` (an item of a set).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from gpusharing.demo.apiserver.kinds import Schema, followed, items_of, part_of

Path = tuple[str, ...]
Paths = frozenset[Path]

_NONE: Final[Schema] = {}
_LIST_TYPE: Final = "x-kubernetes-list-type"


class Difference(NamedTuple):
    changed: Paths
    """Added or modified."""
    removed: Paths


def paths_of(schema: Schema, value: Any) -> Paths:
    """Of what somebody applies: leaves, entries of maps, and items of lists."""
    return frozenset(_paths(schema, value, ()))


def _paths(schema: Schema, value: Any, path: Path) -> Iterator[Path]:
    parts = list(parts_of(schema, value))
    if not parts or value is None:
        if path:
            yield path
        return
    for element, below, part, _ in parts:
        if not _is_known_field(schema, element):
            yield (*path, element)
        yield from _paths(below, part, (*path, element))


def parts_of(schema: Schema, value: Any) -> Iterator[tuple[str, Schema, Any, Any]]:
    """Element, schema, value and key or index of what is merged part by part; nothing of what is one whole."""
    if isinstance(value, dict):
        if schema.get("x-kubernetes-map-type") == "atomic":
            return
        for name, part in value.items():
            yield f"f:{name}", followed(part_of(schema, name) or _NONE), part, name
    elif isinstance(value, list):
        for number, item in enumerate(value):
            element = element_of(schema, item)
            if element is None:
                return
            yield element, items_of(schema), item, number


def element_of(schema: Schema, item: Any) -> str | None:
    """None: items of this list have no names; it is one whole."""
    match schema.get(_LIST_TYPE):
        case "set":
            return f"v:{_compact(item)}"
        case "map" if isinstance(item, dict):
            keys = {key: item.get(key, _default(schema, key)) for key in schema["x-kubernetes-list-map-keys"]}
            return f"k:{_compact({key: value for key, value in keys.items() if value is not None})}"
    return None


def _default(schema: Schema, key: str) -> Any:
    return (part_of(items_of(schema), key) or _NONE).get("default")


def is_named(element: str) -> bool:
    return element.startswith("f:")


def _is_known_field(schema: Schema, element: str) -> bool:
    return is_named(element) and element[2:] in schema.get("properties", _NONE)


def difference(schema: Schema, before: Any, after: Any) -> Difference:
    found = list(_differences(schema, before, after, ()))
    return Difference(
        frozenset(path for path, is_there in found if is_there),
        frozenset(path for path, is_there in found if not is_there),
    )


_ABSENT: Final = object()


def _differences(schema: Schema, before: Any, after: Any, path: Path) -> Iterator[tuple[Path, bool]]:
    """Paths, and whether something is there now."""
    if before == after and type(before) is type(after):
        return
    old = {element: (below, part) for element, below, part, _ in parts_of(schema, before)}
    new = {element: (below, part) for element, below, part, _ in parts_of(schema, after)}
    is_leaf = not old and not new
    if path and (is_leaf or before is _ABSENT or after is _ABSENT):
        yield path, after is not _ABSENT
    for element in old.keys() | new.keys():
        below, was = old.get(element, (_NONE, _ABSENT))
        below, is_now = new.get(element, (below, _ABSENT))
        yield from _differences(below, was, is_now, (*path, element))


def prefixes(paths: Iterable[Path]) -> set[Path]:
    return {path[:length] for path in paths for length in range(1, len(path) + 1)}


def as_fields_v1(paths: Paths) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    parents = {path[:-1] for path in prefixes(paths)}
    for path in sorted(paths):
        place = tree
        for element in path:
            place = place.setdefault(element, {})
        if path in parents:
            place["."] = {}
    return tree


def from_fields_v1(tree: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    if path and (not tree or "." in tree):
        yield path
    for element, below in tree.items():
        if element != ".":
            yield from from_fields_v1(below, (*path, element))


def shown(path: Path) -> str:
    """As conflicts name it: .spec.containers[name="a"].image"""
    text = ""
    for element in path:
        if is_named(element):
            text += f".{element[2:]}"
        elif element.startswith("k:"):
            keys = json.loads(element[2:])
            text += f"[{','.join(f'{key}={_compact(value)}' for key, value in keys.items())}]"
        else:
            text += f"[={element[2:]}]"
    return text


def without(schema: Schema, value: Any, gone: set[Path], path: Path = ()) -> Any:
    """The value without what stands at these paths."""
    if isinstance(value, dict):
        kept = {}
        for element, below, part, name in parts_of(schema, value):
            if (*path, element) not in gone:
                kept[name] = without(below, part, gone, (*path, element))
        return kept if kept or any(True for _ in parts_of(schema, value)) else value
    if isinstance(value, list) and value and element_of(schema, value[0]) is not None:
        return [
            without(below, item, gone, (*path, element))
            for element, below, item, _ in parts_of(schema, value)
            if (*path, element) not in gone
        ]
    return value


def merged(schema: Schema, value: Any, applied: Any) -> Any:
    """The value with what is applied, part by part as the schema has it."""
    if isinstance(applied, dict) and isinstance(value, dict) and schema.get("x-kubernetes-map-type") != "atomic":
        result = dict(value)
        for _, below, part, name in parts_of(schema, applied):
            result[name] = merged(below, value[name], part) if name in value else part
        return result
    if isinstance(applied, list) and isinstance(value, list) and schema.get(_LIST_TYPE) in {"set", "map"}:
        return _merged_list(schema, value, applied)
    return applied


def _merged_list(schema: Schema, value: list[Any], applied: list[Any]) -> list[Any]:
    new = {element: item for element, _, item, _ in parts_of(schema, applied)}
    old = {element: item for element, _, item, _ in parts_of(schema, value)}
    below = items_of(schema)
    items = {
        **old,
        **new,
        **{element: merged(below, old[element], new[element]) for element in old.keys() & new.keys()},
    }
    return [items[element] for element in _merged_order(list(old), list(new))]


def _merged_order(old: list[str], new: list[str]) -> list[str]:
    """What is in both stands as it is applied; the rest stays behind what it stood behind."""
    order: list[str] = []
    for element in old:
        if element not in new:
            order.append(element)
        elif element == next((one for one in new[len(set(order) & set(new)) :] if one in old), None):
            order += [one for one in new[: new.index(element) + 1] if one not in order]
    return order + [one for one in new if one not in order]


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
