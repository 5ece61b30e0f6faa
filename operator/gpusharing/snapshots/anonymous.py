"""A World without the names that people gave, in which everything still fits together."""

from dataclasses import replace
from typing import Any, Final

from gpusharing.api import names
from gpusharing.snapshots.pseudonyms import Pseudonyms
from gpusharing.snapshots.world import RESOURCES, Json, World

_KEPT: Final = frozenset({"kind", "apiVersion", "driver", "type", "operator", "effect", "reason"})
"""Fields whose texts are the API's own, or names of nothing."""
_PROSE: Final = frozenset({"message", "note"})


def anonymous(world: World, pseudonyms: Pseudonyms) -> World:
    changed: dict[str, Any] = {one.field: [_object(item, pseudonyms) for item in world.of(one)] for one in RESOURCES}
    return replace(world, unread=dict.fromkeys(world.unread, "not read"), only_namespace={}, **changed)


def _object(item: Json, pseudonyms: Pseudonyms) -> dict[str, Any]:
    metadata = {key: part for key, part in item["metadata"].items() if key != "annotations"}
    changed: dict[str, Any] = _changed({**item, "metadata": metadata}, pseudonyms)
    return changed


def _changed(value: Any, pseudonyms: Pseudonyms) -> Any:
    match value:
        case dict():
            return {pseudonyms.name(key): _of_field(key, item, pseudonyms) for key, item in value.items()}
        case list():
            return [_changed(item, pseudonyms) for item in value]
        case str():
            return pseudonyms.name(value)
        case _:
            return value


def _of_field(key: str, item: Any, pseudonyms: Pseudonyms) -> Any:
    if key in _KEPT and isinstance(item, str):
        return item
    if key == "opaque" and isinstance(item, dict) and item.get("driver") != names.DRIVER:
        # Nobody knows what others write there.
        return {**item, "parameters": {}}
    if key in _PROSE and isinstance(item, str):
        return pseudonyms.prose(item)
    return _changed(item, pseudonyms)
