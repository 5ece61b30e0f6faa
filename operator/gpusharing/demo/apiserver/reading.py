"""Lists and watches: pages, selectors, and the events that a client hears."""

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gpusharing.demo.apiserver import builtin
from gpusharing.demo.apiserver.errors import StatusError, bad_request
from gpusharing.demo.apiserver.kinds import Kind
from gpusharing.demo.apiserver.selectors import Test, field_test, label_test
from gpusharing.demo.apiserver.store import Change, Store

Json = dict[str, Any]

_BOOKMARK_EVERY: Final = 55.0
_INITIAL_END: Final = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind somebody asks for."""

    kind: Kind
    namespace: str
    matches: Test

    @classmethod
    def of(cls, kind: Kind, namespace: str, query: Mapping[str, str]) -> "Selection":
        tests: list[Test] = []
        if text := query.get("labelSelector"):
            tests.append(label_test(text))
        if text := query.get("fieldSelector"):
            tests.append(field_test(text, kind))
        if namespace:
            tests.append(lambda value: value["metadata"].get("namespace") == namespace)
        return cls(kind, namespace, lambda value: all(test(value) for test in tests))


class Page(NamedTuple):
    items: list[Json]
    metadata: Json


def listed(store: Store, selection: Selection, query: Mapping[str, str]) -> Page:
    collection = selection.kind.stored_as
    limit = _number(query, "limit")
    version, after = store.version, ""
    if token := query.get("continue"):
        version, after = _position(token)
        values = store.kept_list(collection, version)
    else:
        values = store.all(collection)
        asked = _number(query, "resourceVersion")
        if asked > store.version:
            raise StatusError(504, f"Too large resource version: {asked}, current: {store.version}", reason="Timeout")
        if query.get("resourceVersionMatch") == "Exact" and asked != store.version:
            values = store.kept_list(collection, asked)
    found = [value for value in values if selection.matches(value) and _place(value) > after]
    metadata: Json = {"resourceVersion": str(version)}
    if limit and len(found) > limit:
        if not after:
            version = store.keep_list(collection, values)
        metadata["continue"] = _token(version, _place(found[limit - 1]))
        if "labelSelector" not in query and "fieldSelector" not in query:
            metadata["remainingItemCount"] = len(found) - limit
        found = found[:limit]
    return Page([builtin.served(selection.kind, value) for value in found], metadata)


def _place(value: Mapping[str, Any]) -> str:
    return f"{value['metadata'].get('namespace', '')}/{value['metadata']['name']}"


def _token(version: int, place: str) -> str:
    content = {"v": "meta.k8s.io/v1", "rv": version, "start": place}
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def _position(token: str) -> tuple[int, str]:
    try:
        content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(content["rv"]), str(content["start"])
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise bad_request("continue key is not valid: invalid continue token") from None


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not text.isdecimal():
        raise bad_request(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


class Event(NamedTuple):
    type: str
    value: Json


async def watched(store: Store, selection: Selection, query: Mapping[str, str]) -> AsyncIterator[Event]:
    """Until the time is over that the client has asked for, or an ERROR. Raises StatusError before the first event."""
    wants_bookmarks = query.get("allowWatchBookmarks") in {"1", "true"}
    version = _number(query, "resourceVersion")
    loop = asyncio.get_running_loop()
    seconds = _number(query, "timeoutSeconds") or 3600
    end = loop.time() + seconds
    collection = selection.kind.stored_as
    wants_initial = query.get("sendInitialEvents") == "true"
    if wants_initial or not version:
        # From what there is on.
        for value in store.all(collection):
            if selection.matches(value):
                yield Event("ADDED", builtin.served(selection.kind, value))
        version = store.version
        if wants_initial and wants_bookmarks:
            yield _bookmark(selection.kind, version, {_INITIAL_END: "true"})
    while True:
        changed = store.next_change(collection)
        try:
            changes = store.changes_after(collection, version)
        except StatusError as error:
            yield Event("ERROR", error.body())
            return
        for change in changes:
            if event := _event(selection, change):
                yield event
            version = change.version
        left = end - loop.time()
        if left <= 0:
            return
        try:
            async with asyncio.timeout(min(left, _BOOKMARK_EVERY)):
                await changed.wait()
        except TimeoutError:
            if wants_bookmarks:
                version = max(version, store.version)
                yield _bookmark(selection.kind, version, {})


def check_version(store: Store, kind: Kind, query: Mapping[str, str]) -> None:
    """Raises StatusError (410) for a watch from a version that is forgotten."""
    if version := _number(query, "resourceVersion"):
        store.changes_after(kind.stored_as, version)


def _event(selection: Selection, change: Change) -> Event | None:
    """Who selects by labels hears of objects that begin to match, and of those that cease to."""
    matched = change.before is not None and selection.matches(change.before)
    if change.value is None:
        return Event("DELETED", builtin.served(selection.kind, change.before or {})) if matched else None
    if selection.matches(change.value):
        return Event("MODIFIED" if matched else "ADDED", builtin.served(selection.kind, change.value))
    if matched and change.before is not None:
        metadata = {**change.before["metadata"], "resourceVersion": str(change.version)}
        return Event("DELETED", builtin.served(selection.kind, {**change.before, "metadata": metadata}))
    return None


def _bookmark(kind: Kind, version: int, annotations: Mapping[str, str]) -> Event:
    metadata: Json = {"resourceVersion": str(version), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return Event("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": metadata})


