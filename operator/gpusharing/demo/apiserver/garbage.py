"""What follows when objects go: their dependents go as well, and namespaces once they are empty."""

from collections.abc import Callable
from typing import Any, Final

from gpusharing.demo.apiserver.kinds import Kind, Kinds
from gpusharing.demo.apiserver.store import Store

Json = dict[str, Any]
Act = Callable[[Kind, Json], object]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
NAMESPACES: Final = ("", "namespaces")


class Garbage:
    def __init__(self, store: Store, kinds: Kinds, *, delete: Act, remove: Act) -> None:
        """`delete` asks for an object to go, as a client does; `remove` takes it away."""
        self._store = store
        self._kinds = kinds
        self._delete = delete
        self._remove = remove

    def _all(self) -> list[tuple[Kind, Json]]:
        return [
            (kind, value)
            for collection, value in self._store.everything()
            if (kind := self._kinds.stored_as(*collection)) is not None
        ]

    def dependents(self, uid: str) -> list[tuple[Kind, Json]]:
        return [one for one in self._all() if _reference(one[1], uid) is not None]

    def after_write(self, kind: Kind, value: Json) -> None:
        metadata = value["metadata"]
        if "deletionTimestamp" in metadata:
            finalizers = metadata.get("finalizers") or ()
            if ORPHAN in finalizers:
                for other, dependent in self.dependents(metadata["uid"]):
                    self._disown(other, dependent, metadata["uid"])
                self._finalize(kind, value, ORPHAN)
            elif FOREGROUND in finalizers:
                for other, dependent in self.dependents(metadata["uid"]):
                    self._delete(other, dependent)
                self._go_on(kind, value)
            if kind.stored_as == NAMESPACES:
                self._empty(metadata["name"])
        elif owners := metadata.get("ownerReferences"):
            known = {one["metadata"]["uid"] for _, one in self._all()}
            if not any(one["uid"] in known for one in owners):
                self._delete(kind, value)

    def after_removal(self, value: Json) -> None:
        metadata = value["metadata"]
        uids = {one["metadata"]["uid"] for _, one in self._all()}
        for kind, dependent in self.dependents(metadata["uid"]):
            others = [one for one in dependent["metadata"]["ownerReferences"] if one["uid"] in uids]
            if others:
                self._disown(kind, dependent, metadata["uid"])
            else:
                self._delete(kind, dependent)
        owners = {one["uid"] for one in metadata.get("ownerReferences") or ()}
        for kind, owner in self._all() if owners else ():
            if owner["metadata"]["uid"] in owners and FOREGROUND in (owner["metadata"].get("finalizers") or ()):
                self._go_on(kind, owner)
        if namespace := metadata.get("namespace"):
            about = self._store.get(NAMESPACES, namespace)
            if about is not None and "deletionTimestamp" in about["metadata"]:
                self._end_if_empty(about)

    def _go_on(self, kind: Kind, owner: Json) -> None:
        """An owner that waits for those who hold it goes when they have gone."""
        uid = owner["metadata"]["uid"]
        current = self._store.get(kind.stored_as, owner["metadata"]["name"], owner["metadata"].get("namespace", ""))
        if current is None or current["metadata"]["uid"] != uid or "deletionTimestamp" not in current["metadata"]:
            return
        references = [_reference(one, uid) or {} for _, one in self.dependents(uid)]
        if not any(one.get("blockOwnerDeletion") for one in references):
            self._finalize(kind, current, FOREGROUND)

    def _finalize(self, kind: Kind, value: Json, finalizer: str) -> None:
        finalizers = [one for one in value["metadata"].get("finalizers") or () if one != finalizer]
        after = {**value, "metadata": {**value["metadata"], "finalizers": finalizers}}
        if finalizers:
            self._store.put(kind.stored_as, after)
        else:
            self._remove(kind, value)

    def _disown(self, kind: Kind, dependent: Json, uid: str) -> None:
        references = [one for one in dependent["metadata"]["ownerReferences"] if one["uid"] != uid]
        metadata = {name: part for name, part in dependent["metadata"].items() if name != "ownerReferences"}
        self._store.put(
            kind.stored_as,
            {**dependent, "metadata": metadata | ({"ownerReferences": references} if references else {})},
        )

    def _inside(self, namespace: str) -> list[tuple[Kind, Json]]:
        return [one for one in self._all() if one[1]["metadata"].get("namespace") == namespace]

    def _empty(self, namespace: str) -> None:
        for kind, value in self._inside(namespace):
            if "deletionTimestamp" not in value["metadata"]:
                self._delete(kind, value)
        about = self._store.get(NAMESPACES, namespace)
        if about is not None:
            self._end_if_empty(about)

    def _end_if_empty(self, namespace: Json) -> None:
        if self._inside(namespace["metadata"]["name"]):
            return
        if namespace["spec"].get("finalizers"):
            namespace = {**namespace, "spec": {}, "metadata": dict(namespace["metadata"])}
            self._store.put(NAMESPACES, namespace)
        if not namespace["metadata"].get("finalizers") and (kind := self._kinds.stored_as(*NAMESPACES)):
            self._remove(kind, namespace)


def _reference(value: Json, uid: str) -> Json | None:
    return next((one for one in value["metadata"].get("ownerReferences") or () if one["uid"] == uid), None)
