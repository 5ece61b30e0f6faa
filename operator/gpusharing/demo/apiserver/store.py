"""All objects, the version that each write makes, and the changes that watches follow.

Objects that are in here are never changed: who writes puts another one in their place.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpusharing.demo.apiserver.errors import too_old

Json = dict[str, Any]
Collection = tuple[str, str]
"""Group and plural name."""
Key = tuple[str, str]
"""Namespace and name."""

_KEPT_CHANGES: Final = 2000
_FIRST: Final = 100
"""Version: of what was before, nobody knows."""


class Change(NamedTuple):
    version: int
    key: Key
    before: Json | None
    """None: it is new."""
    after: Json | None
    """None: it has gone."""


@dataclass(slots=True)
class _Objects:
    values: dict[Key, Json] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    forgotten: int = _FIRST
    """The version of the newest change that is not kept any more."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Store:
    def __init__(self) -> None:
        self.version = _FIRST
        self._collections: dict[Collection, _Objects] = {}
        self._dependents: dict[str, set[tuple[Collection, Key]]] = {}

    def _of(self, collection: Collection) -> _Objects:
        return self._collections.setdefault(collection, _Objects())

    def get(self, collection: Collection, name: str, namespace: str = "") -> Json | None:
        return self._of(collection).values.get((namespace, name))

    def all(self, collection: Collection) -> list[Json]:
        """Sorted by their places."""
        return _sorted(self._of(collection).values)

    def all_at(self, collection: Collection, version: int) -> list[Json]:
        """As they were. Raises StatusError (410) if that is forgotten."""
        values = dict(self._of(collection).values)
        for change in reversed(self.changes_after(collection, max(version, _FIRST))):
            values.pop(change.key, None)
            if change.before is not None:
                values[change.key] = change.before
        return _sorted(values)

    def inside(self, namespace: str) -> list[tuple[Collection, Json]]:
        return [
            (collection, value)
            for collection, objects in self._collections.items()
            for (where, _), value in objects.values.items()
            if where == namespace
        ]

    def dependents(self, uid: str) -> list[tuple[Collection, Json]]:
        """Those that name this owner."""
        return [(where, self._of(where).values[key]) for where, key in sorted(self._dependents.get(uid, ()))]

    def put(self, collection: Collection, value: Json) -> Json:
        """Gives the object its version."""
        value = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.version + 1)}}
        self._record(collection, _key(value), value)
        return value

    def rewrite(self, collection: Collection, change: Callable[[Json], Json]) -> None:
        """Shows all objects in another way, as when a schema has new defaults: that is no write."""
        values = self._of(collection).values
        values |= {key: change(value) for key, value in values.items()}

    def remove(self, collection: Collection, value: Json) -> Json:
        """The last state of it, with the version at which it has gone."""
        self._record(collection, _key(value), None)
        return last_state(value, self.version)

    def _record(self, collection: Collection, key: Key, value: Json | None) -> None:
        self.version += 1
        objects = self._of(collection)
        before = objects.values.pop(key, None)
        for uid in _owners(before):
            self._dependents[uid].discard((collection, key))
            if not self._dependents[uid]:
                del self._dependents[uid]
        for uid in _owners(value):
            self._dependents.setdefault(uid, set()).add((collection, key))
        if value is not None:
            objects.values[key] = value
        objects.changes.append(Change(self.version, key, before, value))
        if len(objects.changes) > 2 * _KEPT_CHANGES:
            objects.forgotten = objects.changes[_KEPT_CHANGES - 1].version
            del objects.changes[:_KEPT_CHANGES]
        objects.changed.set()
        objects.changed = asyncio.Event()

    def changes_after(self, collection: Collection, version: int) -> list[Change]:
        """Raises StatusError (410) if some of them are forgotten."""
        objects = self._of(collection)
        if version < objects.forgotten:
            raise too_old(version, objects.forgotten)
        return objects.changes[bisect_right(objects.changes, version, key=lambda change: change.version) :]

    def next_change(self, collection: Collection) -> asyncio.Event:
        """It is set at the next change."""
        return self._of(collection).changed


def last_state(value: Json, version: int) -> Json:
    return {**value, "metadata": {**value["metadata"], "resourceVersion": str(version)}}


def _sorted(values: Mapping[Key, Json]) -> list[Json]:
    return sorted(values.values(), key=place_of)


def place_of(value: Mapping[str, Any]) -> str:
    """In the order of lists, as etcd has it."""
    return "/".join(_key(value))


def _key(value: Mapping[str, Any]) -> Key:
    metadata = value["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _owners(value: Json | None) -> Iterator[str]:
    for one in (value or {"metadata": {}})["metadata"].get("ownerReferences") or ():
        yield one["uid"]
