"""The objects of the cluster as the operator knows them: immutable, by kind, from watches and its own writes.

Events of one name can come out of order: Kopf handles each uid in a task of its own, so that the end of an object may
come after the beginning of its successor, and what a write returned may come before or after its event.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Protocol, TypeVar

import pydantic
import structlog

from gpusharing.api import names
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import Identity, Key, ObjectMeta, key_of, metadata_of
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.core.claims import allocation
from gpusharing.kube.kinds import Kind
from gpusharing.kube.unreadable import Unreadables, display_name

T = TypeVar("T")

log = structlog.get_logger(__name__)


class OnChange(Protocol):
    def __call__(self, kind: type[Any], /, *, before: Any | None, after: Any | None) -> None:
        """An object of this type has come (there was none before), changed, or gone (there is none after)."""


class Store:
    def __init__(
        self,
        watched: Collection[Kind[Any]],
        *,
        on_change: OnChange,
        unreadables: Unreadables | None = None,
    ) -> None:
        self._objects: Mapping[Kind[Any], dict[Key, Any]] = {kind: {} for kind in watched}
        self._listed_as_of: dict[Kind[Any], int] = {}
        self._on_change = on_change
        self.unreadables = unreadables or Unreadables()

    def all(self, kind: Kind[T]) -> Iterator[T]:
        return iter(self._objects[kind].values())

    def get(self, kind: Kind[T], name: str, namespace: str = "") -> T | None:
        return self._objects[kind].get((namespace, name))

    def count(self, kind: Kind[Any]) -> int:
        return len(self._objects[kind])

    def apply_event(self, kind: Kind[Any], event: str | None, value: Mapping[str, Any]) -> None:
        """Applies an event of a watch. None: Kopf's type for objects that existed when the watch began."""
        match event:
            case "BOOKMARK":
                pass
            case "DELETED":
                self.remove(kind, value)
            case _ if self._is_from_before_list(kind, value):
                pass
            case _:
                self.apply(kind, value)

    def mark_listed(self, kind: Kind[Any], as_of: str) -> None:
        """A complete list has been applied. What is not known now was deleted before it: an event that is older, and
        was under way meanwhile, must not bring it back."""
        self._listed_as_of[kind] = int(as_of)

    def _is_from_before_list(self, kind: Kind[Any], value: Mapping[str, Any]) -> bool:
        metadata = value["metadata"]
        is_known = (metadata.get("namespace", ""), metadata["name"]) in self._objects[kind]
        return not is_known and int(metadata["resourceVersion"]) <= self._listed_as_of.get(kind, 0)

    def never_listed(self, kind: Kind[T]) -> list[Key]:
        """Objects that were read by name, and of which no list and no watch tells."""
        if not kind.label:
            return []
        return [key for key, item in self._objects[kind].items() if not kind.is_listed(item)]

    def known(self, kind: Kind[T]) -> Mapping[Key, T]:
        """A copy of the objects of a kind."""
        return dict(self._objects[kind])

    def apply(self, kind: Kind[Any], value: Mapping[str, Any]) -> None:
        """Applies a listed or watched object, unless it is old."""
        if not self._is_old(kind, value):
            # Lists come twice, and what we wrote ourselves comes back: it need not be read.
            self._read(kind, value)

    def apply_answer(
        self, kind: Kind[Any], key: Key, value: Mapping[str, Any] | None, *, before: Mapping[Key, Any]
    ) -> None:
        """Applies the result of a GET (None: not found), whatever the versions say. `before`: the objects when it was
        sent. An object that has changed since is newer."""
        if self._objects[kind].get(key) is not before.get(key):
            return
        if value is not None:
            self._read(kind, value)
        elif key in self._objects[kind]:
            self._forget(kind, key)

    def _read(self, kind: Kind[Any], value: Mapping[str, Any]) -> None:
        try:
            item = kind.from_json(value)
        except pydantic.ValidationError as error:
            self.unreadables.skip(kind.kind, display_name(value), error)
            if kind.unreadable is None:
                # Whatever was known of it stays: half an object must not look like a deleted one.
                return
            item = kind.unreadable(value["metadata"])
        self._put(kind, self._with_known_parts(kind, item))

    def apply_named(self, kind: Kind[T], name: str, item: T | None) -> None:
        """Applies a cluster-scoped object that was read by name. None: it does not exist."""
        known = self._objects[kind].get(("", name))
        if item is None:
            if known is not None:
                self._forget(kind, ("", name))
        elif known is None or _version(metadata_of(item)) > _version(known.metadata):
            self._put(kind, item)

    def apply_written(self, kind: Kind[T], item: T) -> None:
        """Applies the result of our own write, so that the next decision does not repeat the write."""
        metadata = metadata_of(item)
        known = self._objects[kind].get(key_of(item))
        # An object that has gone meanwhile stays gone.
        if known is not None and known.metadata.uid == metadata.uid and _version(metadata) > _version(known.metadata):
            self._put(kind, item)

    def apply_created(self, kind: Kind[T], item: T) -> None:
        """Applies an object that we have created: its event may come late."""
        if kind in self._objects and key_of(item) not in self._objects[kind]:
            self._put(kind, item)

    def remove(self, kind: Kind[Any], value: Mapping[str, Any]) -> None:
        """Removes a deleted object."""
        metadata = value["metadata"]
        key = metadata.get("namespace", ""), metadata["name"]
        known = self._objects[kind].get(key)
        if known is not None and known.metadata.uid == metadata["uid"]:
            self._forget(kind, key)

    def remove_unlisted(
        self, kind: Kind[Any], uids: AbstractSet[str], *, as_of: str, before: Mapping[Key, Any]
    ) -> None:
        """Removes objects that a complete list does not have, unless they are newer than it. `before`: the objects
        when the list was requested. None of them is newer, whatever its version: history may have gone back."""
        lost = [
            key
            for key, item in self._objects[kind].items()
            if item.metadata.uid not in uids
            and kind.is_listed(item)
            and (item is before.get(key) or _version(item.metadata) <= int(as_of))
        ]
        for key in lost:
            log.info("missed deletion found", kind=kind.kind, object="/".join(filter(None, key)))
            self._forget(kind, key)

    def _is_old(self, kind: Kind[Any], value: Mapping[str, Any]) -> bool:
        metadata = value["metadata"]
        known = self._objects[kind].get((metadata.get("namespace", ""), metadata["name"]))
        return known is not None and int(metadata["resourceVersion"]) <= _version(known.metadata)

    def find_outdated(
        self, kind: Kind[Any], listed: Iterable[Identity], *, before: Mapping[Key, Any]
    ) -> list[Identity]:
        """Objects of a list that are unknown or older here. Or newer, if known `before` the list was requested: then
        they are of another history."""
        objects = self._objects[kind]

        def is_missed(identity: Identity) -> bool:
            key = identity.namespace, identity.name
            item = objects.get(key)
            if item is None:
                return True
            known, there_is = _version(item.metadata), _version(identity)
            return known < there_is or (known > there_is and item is before.get(key))

        return [identity for identity in listed if is_missed(identity)]

    def _with_known_parts(self, kind: Kind[T], item: T) -> T:
        """Each half of a NodeSharing has another writer, so that mostly only one of them has changed."""
        known = self._objects[kind].get(key_of(item))
        if isinstance(item, NodeSharing) and known is not None:
            return item.made_of(known.spec, known.status)
        return item

    def _put(self, kind: Kind[T], item: Any) -> None:
        if isinstance(item, ResourceClaim):
            item = allocation.kept(item, names.DRIVER)
        key = key_of(item)
        before = self._objects[kind].get(key)
        self._objects[kind][key] = item
        self._on_change(kind.model, before=before, after=item)

    def _forget(self, kind: Kind[Any], key: Key) -> None:
        self._on_change(kind.model, before=self._objects[kind].pop(key), after=None)


def _version(metadata: ObjectMeta | Identity) -> int:
    # Kubernetes promises (since 1.35) that versions of one resource compare as numbers.
    return int(metadata.resource_version)
