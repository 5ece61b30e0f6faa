"""Lists that stay up to date: read once, then watched, which costs the API server next to nothing."""

import http.client
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.cli.reading.cluster import Ask, Found, read_list

# The metadata of a list come before its items.
_HEAD: Final = 4096
_VERSION: Final = re.compile(rb'"resourceVersion":"([^"]+)"')
_SECONDS: Final = 50
"""Of a watch: a client gives up on a connection that is silent for a minute."""
_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 30.0
# The last one: the client was closed, and the program is about to end.
_PROBLEMS: Final = (
    ReadError,
    CommandError,
    OSError,
    http.client.HTTPException,
    msgspec.MsgspecError,
    RuntimeError,
)


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
    """One list, followed by a thread that ends with the program."""

    def __init__(self, client: Client, ask: Ask, changed: Callable[[], None]) -> None:
        self._client = client
        self._ask = ask
        self._changed = changed
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
        while True:
            try:
                self._read()
                delay = _FIRST_DELAY
                while not self._known.found.unread and self._watch():
                    # An API server that ends each watch at once is not asked all the time.
                    time.sleep(_FIRST_DELAY)
            except _PROBLEMS as error:
                self.problem = f"{self._ask.resource.plural}: {error}"
                self._changed()
            time.sleep(_LONGEST_DELAY if self._known.found.unread else delay)
            delay = min(delay * 2, _LONGEST_DELAY)

    def _read(self) -> None:
        found = read_list(self._client, self._ask._replace(decode=self._decode_page))
        with self._lock:
            self._known = _Known(found._replace(objects=()), {_key(one): one for one in found.objects})
        self.problem = ""
        self.is_read.set()
        self._changed()

    def _decode_page(self, page: bytes) -> Sequence[Any]:
        version = _VERSION.search(page, 0, _HEAD)
        self._version = version[1].decode() if version else ""
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
        with self._lock:
            if kept:
                self._known.objects[key] = kept[0]
            else:
                self._known.objects.pop(key, None)
        self._changed()


def _key(one: Any) -> tuple[str, str]:
    """Of JSON, or of what was decoded."""
    if isinstance(one, dict):
        return one["metadata"].get("namespace", ""), one["metadata"]["name"]
    return one.metadata.namespace, one.metadata.name
