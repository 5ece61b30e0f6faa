"""What follows when objects go: their dependents go as well, and namespaces and definitions once they are empty.

As in a cluster, it follows after the answer.
"""

from collections.abc import Callable
from typing import Any, Final

from gpusharing.demo.apiserver.kinds import Kind, Kinds
from gpusharing.demo.apiserver.store import Collection, Store

Json = dict[str, Any]
Act = Callable[[Kind, Json], object]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
NAMESPACES: Final = ("", "namespaces")
CRDS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")


class Garbage:
    def __init__(
        self, store: Store, kinds: Kinds, *, delete: Act, write: Act, later: Callable[[Callable[[], None]], object]
    ) -> None:
        """`delete` asks for an object to go, as a client does; `write` keeps it, or removes it when nobody holds it.
        `later`: calls a function after the answer.
        """
        self._store = store
        self._kinds = kinds
        self._delete = delete
        self._write = write
        self._later = later

    def after_write(self, kind: Kind, value: Json) -> None:
        if "deletionTimestamp" in value["metadata"]:
            self._later(lambda: self._go_on(kind.stored_as, value))
        elif value["metadata"].get("ownerReferences"):
            self._later(lambda: self._delete_stray(kind, value))

    def after_removal(self, kind: Kind, value: Json) -> None:
        self._later(lambda: self._follow(kind, value))

    def _follow(self, kind: Kind, gone: Json) -> None:
        metadata = gone["metadata"]
        for where, dependent in self._store.dependents(metadata["uid"]):
            self._disown_or_delete(where, dependent, metadata["uid"])
        for owner in metadata.get("ownerReferences") or ():
            if (found := self._find(owner, metadata.get("namespace", ""))) is not None:
                self._go_on(*found)
        if about := self._store.get(NAMESPACES, metadata.get("namespace", "")):
            self._go_on(NAMESPACES, about)
        if kind.is_custom and (definition := self._store.get(CRDS, kind.resource)):
            self._go_on(CRDS, definition)

    def _find(self, owner: Json, namespace: str) -> tuple[Collection, Json] | None:
        kind = self._kinds.of(owner["apiVersion"], owner["kind"])
        if kind is None:
            return None
        value = self._store.get(kind.stored_as, owner["name"], namespace if kind.namespaced else "")
        return (kind.stored_as, value) if value and value["metadata"]["uid"] == owner["uid"] else None

    def _delete_stray(self, kind: Kind, value: Json) -> None:
        """One whose owners have all gone, or never were."""
        current = self._current(kind.stored_as, value)
        owners = (current or {"metadata": {}})["metadata"].get("ownerReferences") or ()
        namespace = value["metadata"].get("namespace", "")
        if current and owners and not any(self._find(one, namespace) for one in owners):
            self._delete(kind, current)

    def _disown_or_delete(self, where: Collection, dependent: Json, uid: str) -> None:
        namespace = dependent["metadata"].get("namespace", "")
        others = [one for one in dependent["metadata"]["ownerReferences"] if one["uid"] != uid]
        if any(self._find(one, namespace) for one in others):
            self._disown(where, dependent, uid)
        elif kind := self._kinds.stored_as(*where):
            self._delete(kind, dependent)

    def _disown(self, where: Collection, dependent: Json, uid: str) -> None:
        references = [one for one in dependent["metadata"]["ownerReferences"] if one["uid"] != uid]
        self._store.put(where, _with_metadata(dependent, "ownerReferences", references))

    def _current(self, where: Collection, value: Json) -> Json | None:
        metadata = value["metadata"]
        current = self._store.get(where, metadata["name"], metadata.get("namespace", ""))
        return current if current and current["metadata"]["uid"] == metadata["uid"] else None

    def _go_on(self, where: Collection, value: Json) -> None:
        """With an object that is being deleted: what holds it for what else must go."""
        current = self._current(where, value)
        if current is None or "deletionTimestamp" not in current["metadata"]:
            return
        finalizers = current["metadata"].get("finalizers") or ()
        uid = current["metadata"]["uid"]
        if where == NAMESPACES:
            self._empty_namespace(current)
        elif CLEANUP in finalizers:
            self._empty_definition(current)
        elif ORPHAN in finalizers:
            for other, dependent in self._store.dependents(uid):
                self._disown(other, dependent, uid)
            self._release(where, current, ORPHAN)
        elif FOREGROUND in finalizers:
            for other, dependent in self._store.dependents(uid):
                if "deletionTimestamp" not in dependent["metadata"] and (kind := self._kinds.stored_as(*other)):
                    self._delete(kind, dependent)
            if not any(_blocks(dependent, uid) for _, dependent in self._store.dependents(uid)):
                self._release(where, current, FOREGROUND)

    def _release(self, where: Collection, value: Json, finalizer: str) -> None:
        if kind := self._kinds.stored_as(*where):
            finalizers = [one for one in value["metadata"].get("finalizers") or () if one != finalizer]
            self._write(kind, _with_metadata(value, "finalizers", finalizers))

    def _empty_namespace(self, namespace: Json) -> None:
        inside = self._store.inside(namespace["metadata"]["name"])
        for where, value in inside:
            if "deletionTimestamp" not in value["metadata"] and (kind := self._kinds.stored_as(*where)):
                self._delete(kind, value)
        if not self._store.inside(namespace["metadata"]["name"]) and (kind := self._kinds.stored_as(*NAMESPACES)):
            self._write(kind, {**namespace, "spec": {}})

    def _empty_definition(self, definition: Json) -> None:
        spec = definition["spec"]
        where = (spec["group"], spec["names"]["plural"])
        for value in self._store.all(where):
            if "deletionTimestamp" not in value["metadata"] and (kind := self._kinds.stored_as(*where)):
                self._delete(kind, value)
        if not self._store.all(where):
            self._release(CRDS, definition, CLEANUP)


def _with_metadata(value: Json, name: str, part: Any) -> Json:
    metadata = {one: other for one, other in value["metadata"].items() if one != name}
    return {**value, "metadata": metadata | ({name: part} if part else {})}


def _blocks(dependent: Json, uid: str) -> bool:
    references = dependent["metadata"].get("ownerReferences") or ()
    return any(one["uid"] == uid and one.get("blockOwnerDeletion") for one in references)
