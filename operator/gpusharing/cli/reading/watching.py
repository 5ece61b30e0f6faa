"""A list that stays as the cluster is: read once, and then followed by a watch."""

import http.client
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import LONGEST_LINE, Client, ReadError, metadata
from gpusharing.cli.reading.cluster import Ask, Found

_WATCHED_FOR: Final = 240
"""Seconds, after which the API server ends a watch, and it begins again where it was."""
_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 30.0
_GONE: Final = 410

Key = tuple[str, str]
Heard = Callable[[Any, Any], None]
"""What an object was, and what it is; None: it was not, or is not any more."""


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: _Version = _Version()
    code: int = 0
    message: str = ""


_EVENT: Final = msgspec.json.Decoder(_Event)
_BOOKMARK: Final = msgspec.json.Decoder(_Bookmark)


class GoneError(Exception):
    """The list has to be read again."""


class Watched:
    """The objects of one `Ask`. One thread follows, others read."""

    def __init__(self, client: Client, ask: Ask, heard: Heard, key: Callable[[Any], Key]) -> None:
        self._client = client
        self._ask = ask
        self._heard = heard
        self._key = key
        self._objects: dict[Key, Any] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._namespace = ask.namespace
        self.has_begun = threading.Event()
        """The first list was read, or may not be."""
        self.unread = ""
        self.problem = ""
        """Why it may be old now."""

    def start(self) -> None:
        threading.Thread(target=self._follow, name=f"watch {self._ask.resource.plural}", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    @property
    def objects(self) -> Sequence[Any]:
        with self._lock:
            return list(self._objects.values())

    @property
    def found(self) -> Found:
        return Found(self.objects, self.unread, self._namespace)

    def _follow(self) -> None:
        delay = _FIRST_DELAY
        while not self._closed.is_set():
            try:
                version = self._list()
                self.has_begun.set()
                self._say("")
                delay = _FIRST_DELAY
                while not self._closed.is_set():
                    version = self._watch(version)
            except GoneError:
                continue
            except ReadError as error:
                self._refused(error)
            except (CommandError, OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
                self._say(f"{self._ask.resource.plural}: {error}")
            self.has_begun.set()
            self._closed.wait(delay)
            delay = min(delay * 2, _LONGEST_DELAY)

    def _refused(self, error: ReadError) -> None:
        if error.is_forbidden and self._ask.fallback and not self._namespace:
            self._namespace = self._ask.fallback
        elif error.is_forbidden or error.is_absent:
            self.unread = error.message
            self._replace({})
        else:
            self._say(f"{self._ask.resource.plural}: {error.message}")

    def _list(self) -> str:
        path, version = self._ask.resource.path(namespace=self._namespace), ""
        objects: dict[Key, Any] = {}
        for page in self._client.pages(path, self._query()):
            version = version or metadata(page).get("resourceVersion", "")
            objects |= {self._key(one): one for one in self._ask.decode(page)}
        self.unread = ""
        self._replace(objects)
        return version

    def _watch(self, version: str) -> str:
        """Until the API server ends it; the version of what was heard last. Raises GoneError."""
        asked = {
            **self._query(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCHED_FOR),
        }
        with self._client.lines(self._ask.resource.path(namespace=self._namespace), asked) as lines:
            for line in lines:
                if len(line) >= LONGEST_LINE:
                    raise GoneError
                event = _EVENT.decode(line)
                about = _BOOKMARK.decode(event.object)
                if event.type == "ERROR":
                    if about.code == _GONE:
                        raise GoneError
                    raise CommandError(about.message)
                version = about.metadata.resource_version or version
                if event.type != "BOOKMARK":
                    self._apply(event)
        return version

    def _apply(self, event: _Event) -> None:
        # Decoded as the list is: what cannot be read, or is of no interest, is left out.
        for one in self._ask.decode(b'{"items":[%b]}' % bytes(event.object)):
            key, new = self._key(one), None if event.type == "DELETED" else one
            with self._lock:
                old = self._objects.pop(key, None)
                if new is not None:
                    self._objects[key] = new
            if old != new:
                self._heard(old, new)

    def _replace(self, objects: dict[Key, Any]) -> None:
        with self._lock:
            before, self._objects = self._objects, objects
        for key in before.keys() | objects.keys():
            old, new = before.get(key), objects.get(key)
            if old != new:
                self._heard(old, new)

    def _query(self) -> dict[str, str]:
        query = {"fieldSelector": self._ask.fields, "labelSelector": self._ask.labels}
        return {name: value for name, value in query.items() if value}

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self._heard(None, None)
