"""All objects, the version that each write makes, and the changes that watches follow.

Objects that are in here are never changed: who writes puts another one in their place.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpusharing.demo.apiserver.errors import StatusError, too_old

Json = dict[str, Any]
Collection = tuple[str, str]
"""Group and plural name."""
Key = tuple[str, str]
"""Namespace and name."""

_KEPT_CHANGES: Final = 2000
_KEPT_LISTS: Final = 32


class Change(NamedTuple):
    version: int
    value: Json | None
    """None: it has gone."""
    before: Json | None


@dataclass(slots=True)
class _Objects:
    values: dict[Key, Json] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    forgotten: int = 0
    """The version of the newest change that is not kept any more."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Store:
    def __init__(self) -> None:
        self.version = 1
        self._collections: dict[Collection, _Objects] = {}
        self._lists: dict[tuple[Collection, int], tuple[Json, ...]] = {}

    def _of(self, collection: Collection) -> _Objects:
        return self._collections.setdefault(collection, _Objects())

    def get(self, collection: Collection, name: str, namespace: str = "") -> Json | None:
        return self._of(collection).values.get((namespace, name))

    def all(self, collection: Collection) -> tuple[Json, ...]:
        """Sorted by namespace and name."""
        values = self._of(collection).values
        return tuple(values[key] for key in sorted(values))

    def everything(self) -> Iterator[tuple[Collection, Json]]:
        for collection, objects in list(self._collections.items()):
            for value in list(objects.values.values()):
                yield collection, value

    def put(self, collection: Collection, value: Json) -> Json:
        """Gives the object its version."""
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        self._record(collection, _key(value), value)
        return value

    def remove(self, collection: Collection, value: Json) -> Json:
        """Gives the last state of it, with the version at which it has gone."""
        self.version += 1
        last = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.version)}}
        self._record(collection, _key(value), None, last)
        return last

    def _record(self, collection: Collection, key: Key, value: Json | None, last: Json | None = None) -> None:
        objects = self._of(collection)
        before = objects.values.pop(key, None)
        if value is not None:
            objects.values[key] = value
        objects.changes.append(Change(self.version, value, last or before))
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

    def keep_list(self, collection: Collection, values: tuple[Json, ...]) -> int:
        """For the pages that follow; it is known by the version that this returns."""
        self._lists[collection, self.version] = values
        while len(self._lists) > _KEPT_LISTS:
            del self._lists[next(iter(self._lists))]
        return self.version

    def kept_list(self, collection: Collection, version: int) -> tuple[Json, ...]:
        values = self._lists.get((collection, version))
        if values is None:
            raise StatusError(410, _CONTINUE_EXPIRED)
        return values


_CONTINUE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


def _key(value: Mapping[str, Any]) -> Key:
    metadata = value["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
