"""Lists and watches: pages, selectors, and the events that a client hears."""

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gpusharing.demo.apiserver import builtin
from gpusharing.demo.apiserver.errors import Cause, StatusError, bad_request, invalid
from gpusharing.demo.apiserver.kinds import Kind
from gpusharing.demo.apiserver.selectors import Test, field_test, label_test
from gpusharing.demo.apiserver.store import Change, Store, last_state, place_of

Json = dict[str, Any]

_BOOKMARK_EVERY: Final = 55.0
_LONGEST: Final = 3600
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

    def is_inside(self, value: Mapping[str, Any]) -> bool:
        return not self.namespace or value["metadata"].get("namespace") == self.namespace


class Page(NamedTuple):
    items: list[Json]
    metadata: Json


def listed(store: Store, selection: Selection, query: Mapping[str, str]) -> Page:
    _check_list(query)
    collection = selection.kind.stored_as
    limit, asked = _number(query, "limit"), _number(query, "resourceVersion")
    version, after = store.version, ""
    if token := query.get("continue"):
        if asked:
            raise bad_request("specifying resource version is not allowed when using continue")
        version, after = _position(token)
    elif query.get("resourceVersionMatch") == "Exact":
        version = asked
    elif asked > version:
        raise StatusError(504, f"Too large resource version: {asked}, current: {version}", reason="Timeout")
    values = store.all(collection) if version == store.version else store.all_at(collection, version)
    left = [value for value in values if place_of(value) > after and selection.is_inside(value)]
    found: list[Json] = []
    while left and not (limit and len(found) == limit):
        value = left.pop(0)
        if selection.matches(value):
            found.append(value)
    metadata: Json = {"resourceVersion": str(version)}
    if left:
        # Whether one of them matches is found out by who asks for them.
        metadata["continue"] = _token(version, place_of(value))
        if "labelSelector" not in query and "fieldSelector" not in query:
            metadata["remainingItemCount"] = len(left)
    return Page([builtin.served(selection.kind, value) for value in found], metadata)


def _check_list(query: Mapping[str, str]) -> None:
    """Raises StatusError."""
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    causes = []
    if match and not version:
        causes.append("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match and "continue" in query:
        causes.append("resourceVersionMatch is forbidden when continue is provided")
    if match == "Exact" and version == "0":
        causes.append('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    _refuse("resourceVersionMatch", causes)
    if "sendInitialEvents" in query:
        _refuse("sendInitialEvents", ["sendInitialEvents is forbidden for list"])


def check_watch(store: Store, kind: Kind, query: Mapping[str, str]) -> StatusError | None:
    """What a watch begins and ends with, from a version that is forgotten. Raises StatusError."""
    match, sends_initial = query.get("resourceVersionMatch", ""), "sendInitialEvents" in query
    causes = []
    if sends_initial and match != "NotOlderThan":
        causes.append("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if match and not sends_initial:
        causes.append("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    more = []
    if match not in {"", "NotOlderThan"}:
        text = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
        more.append(Cause("resourceVersionMatch", "FieldValueNotSupported", text))
    _refuse("resourceVersionMatch", causes, more)
    text = query.get("resourceVersion") or "0"
    if not text.isdecimal():
        raise StatusError(500, f'strconv.ParseUint: parsing "{text}": invalid syntax', reason="")
    if version := int(text):
        try:
            store.changes_after(kind.stored_as, version)
        except StatusError as error:
            return error
    return None


def _refuse(field: str, causes: list[str], more: Sequence[Cause] = ()) -> None:
    found = [*(Cause(field, "FieldValueForbidden", f"Forbidden: {cause}") for cause in causes), *more]
    if found:
        raise invalid("meta.k8s.io", "ListOptions", "", found)


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


async def watched(store: Store, selection: Selection, query: Mapping[str, str]) -> AsyncGenerator[Event]:
    """Until the time is over that the client has asked for, or an ERROR."""
    collection = selection.kind.stored_as
    wants_bookmarks = query.get("allowWatchBookmarks") in {"1", "true"}
    loop = asyncio.get_running_loop()
    end = loop.time() + (_number(query, "timeoutSeconds") or _LONGEST)
    version = _number(query, "resourceVersion")
    if not version or query.get("sendInitialEvents") == "true":
        version, initial = store.version, store.all(collection)
        for value in initial:
            if selection.matches(value):
                yield Event("ADDED", builtin.served(selection.kind, value))
        if query.get("sendInitialEvents") == "true" and wants_bookmarks:
            yield _bookmark(selection.kind, version, {_INITIAL_END: "true"})
    while (left := end - loop.time()) > 0:
        changed = store.next_change(collection)
        now = store.version
        for event in _events(store, selection, version):
            yield event
            if event.type == "ERROR":
                return
        version = now
        try:
            async with asyncio.timeout(min(left, _BOOKMARK_EVERY)):
                await changed.wait()
        except TimeoutError:
            if wants_bookmarks and not changed.is_set():
                version = store.version
                yield _bookmark(selection.kind, version, {})


def _events(store: Store, selection: Selection, version: int) -> Iterator[Event]:
    """What has happened after a version."""
    try:
        changes = store.changes_after(selection.kind.stored_as, version)
    except StatusError as error:
        yield Event("ERROR", error.body())
        return
    for change in changes:
        if event := _event(selection, change):
            yield event


def _event(selection: Selection, change: Change) -> Event | None:
    """Who selects by labels hears of objects that begin to match, and of those that cease to."""
    before, after = change.before, change.after
    matched = before is not None and selection.matches(before)
    if after is not None and selection.matches(after):
        return Event("MODIFIED" if matched else "ADDED", builtin.served(selection.kind, after))
    if matched and before is not None:
        return Event("DELETED", builtin.served(selection.kind, last_state(before, change.version)))
    return None


def _bookmark(kind: Kind, version: int, annotations: Mapping[str, str]) -> Event:
    metadata: Json = {"resourceVersion": str(version)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return Event("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": metadata})
