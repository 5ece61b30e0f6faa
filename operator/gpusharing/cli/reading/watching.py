"""Lists that stay up to date: read once, then watched, which costs the API server next to nothing."""

import http.client
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client, ReadError, metadata
from gpusharing.cli.reading.cluster import Ask, Found, read_list

_SECONDS: Final = 50
"""Of a watch: a client gives up on a connection that is silent for a minute."""
_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 30.0
# The last one: the client was closed.
_PROBLEMS: Final = (
    ReadError,
    CommandError,
    OSError,
    http.client.HTTPException,
    msgspec.MsgspecError,
    RuntimeError,
)


Heard = Callable[[Any, Any], None]
"""What an object was, and what it is. None: it was not there, or is not any more. Both: only the problem is another."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Known(NamedTuple):
    found: Found
    """Without its objects."""
    objects: dict[tuple[str, str], Any]


class Watched:
    """One list, followed by a thread that ends with its client."""

    def __init__(self, client: Client, ask: Ask, heard: Heard) -> None:
        self._client = client
        self._ask = ask
        self._heard = heard
        self._lock = threading.Lock()
        self._known = _Known(Found(), {})
        self._version = ""
        self.is_read = threading.Event()
        self.problem = ""
        """Why it is out of date; empty: it is not."""
        threading.Thread(target=self._follow, name=f"watch {ask.resource.plural}", daemon=True).start()

    def found(self) -> Found:
        with self._lock:
            return self._known.found._replace(objects=list(self._known.objects.values()))

    def _follow(self) -> None:
        delay = _FIRST_DELAY
        closed = self._client.closed
        while not closed.is_set():
            try:
                self._read()
                delay = _FIRST_DELAY
                while not self._known.found.unread and self._watch():
                    # An API server that ends each watch at once is not asked all the time.
                    if closed.wait(_FIRST_DELAY):
                        return
            except _PROBLEMS as error:
                self._say(f"{self._ask.resource.plural}: {error}")
            closed.wait(_LONGEST_DELAY if self._known.found.unread else delay)
            delay = min(delay * 2, _LONGEST_DELAY)

    def _read(self) -> None:
        found = read_list(self._client, self._ask._replace(decode=self._decode_page))
        objects = {_key(one): one for one in found.objects}
        with self._lock:
            before, self._known = self._known.objects, _Known(found._replace(objects=()), objects)
        for key in before.keys() | objects.keys():
            if (old := before.get(key)) != (new := objects.get(key)):
                self._heard(old, new)
        self.is_read.set()
        self._say("")

    def _say(self, problem: str) -> None:
        self.problem = problem
        self._heard(None, None)

    def _decode_page(self, page: bytes) -> Sequence[Any]:
        self._version = metadata(page).get("resourceVersion", "")
        return self._ask.decode(page)

    def _watch(self) -> bool:
        """False: the API server does not remember that version, and the list has to be read again."""
        ask = self._ask
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_SECONDS),
            "resourceVersion": self._version,
            **({"fieldSelector": ask.fields} if ask.fields else {}),
            **({"labelSelector": ask.labels} if ask.labels else {}),
        }
        path = ask.resource.path(namespace=self._known.found.only_namespace)
        for line in self._client.lines(path, query):
            event = msgspec.json.decode(line, type=_Event)
            if event.type == "ERROR":
                return False
            metadata = msgspec.json.decode(event.object, type=_Head).metadata
            if event.type != "BOOKMARK":
                self._put((metadata.namespace, metadata.name), event)
            self._version = metadata.resource_version
        return True

    def _put(self, key: tuple[str, str], event: _Event) -> None:
        # Of the objects of a page, some are left out.
        kept = () if event.type == "DELETED" else self._ask.decode(b'{"items":[%b]}' % bytes(event.object))
        new = kept[0] if kept else None
        with self._lock:
            old = self._known.objects.pop(key, None)
            if new is not None:
                self._known.objects[key] = new
        if old != new:
            self._heard(old, new)


def _key(one: Any) -> tuple[str, str]:
    """Of JSON, or of what was decoded."""
    if isinstance(one, dict):
        return one["metadata"].get("namespace", ""), one["metadata"]["name"]
    return one.metadata.namespace, one.metadata.name
