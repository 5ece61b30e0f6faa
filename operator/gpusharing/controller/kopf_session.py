"""What Kopf has in the place of a session with the API server: it is told what our own watches read.

Kopf would end the operator at bytes that it cannot read, which anybody who may create a claim can write, as at a list
that expires or a definition that is deleted; and it tells of no deletion that came before a list of its own. So the one
way in which all kinds are listed and watched here (`kube/reflector.py`) is Kopf's way, too.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final, NamedTuple, Self, cast
from urllib.parse import parse_qs, urlsplit

import aiohttp
import kopf

from gpusharing.api import strict_json
from gpusharing.kube.kinds import Kind

_HANDED_OVER: Final = 64
"""Objects of a kind that Kopf has at a time: it has tasks for each, and takes without end what it is given."""

# The store has taken in what there is, and Kopf watches from no version: its events wait for it.
_NOTHING_LISTED: Final = {"metadata": {"resourceVersion": "0"}, "items": []}


class KopfSession:
    """As much of a session as Kopf uses."""

    closed = False

    def __init__(self, kinds: Collection[Kind[Any]]) -> None:
        self._served = _discovery(kinds)
        self._feeds: Mapping[str, _Feed] = {kind.path(): _Feed() for kind in kinds}
        self.headers = {"User-Agent": "set by the transport"}

    def hand_on(self, kind: Kind[Any], event: str, value: Mapping[str, Any]) -> None:
        """To the handler of the kind. Bookmarks are for who watches, and of no object."""
        if event != "BOOKMARK":
            self._feeds[kind.path()].put(event, value)

    def mark_heard(self, kind: Kind[Any], value: Mapping[str, Any]) -> None:
        """The handler of the kind has it."""
        self._feeds[kind.path()].mark_heard(value)

    @property
    def age(self) -> float:
        """Of the oldest event that no handler has heard yet, in seconds; 0 if there is none."""
        return max((feed.age for feed in self._feeds.values()), default=0.0)

    def login(self) -> kopf.AiohttpSession:
        # Kopf says whose session it takes; it does not look.
        return kopf.AiohttpSession(server="", aiohttp_session=cast("aiohttp.ClientSession", self))

    async def request(self, method: str, url: str, **_: Any) -> "_Answer":
        """GET, since Kopf writes nothing here."""
        if method.upper() != "GET":
            raise PermissionError(f"{method} {url}: Kopf may write nothing")
        address = urlsplit(url)
        feed = self._feeds.get(address.path)
        if feed is None:
            return _Answer(self._served[address.path])
        return _Watch(feed) if "watch" in parse_qs(address.query) else _Answer(_NOTHING_LISTED)

    async def close(self) -> None:
        """There is no connection."""


def _discovery(kinds: Collection[Kind[Any]]) -> Mapping[str, Any]:
    """What Kopf asks for first, by path: that there are these kinds."""
    groups = {kind.group: kind.version for kind in kinds if kind.group}
    served = [(group, {"version": version}) for group, version in groups.items()]
    result: dict[str, Any] = {
        "/api": {"versions": ["v1"]},
        "/apis": {"groups": [{"name": name, "versions": [it], "preferredVersion": it} for name, it in served]},
    }
    for kind in kinds:
        version = result.setdefault(kind.path().rpartition("/")[0], {"resources": []})
        named = {"kind": kind.kind, "name": kind.plural, "singularName": kind.kind.lower()}
        version["resources"].append({**named, "namespaced": kind.namespaced, "verbs": ["list", "watch"]})
    return result


class _Event(NamedTuple):
    type: str
    value: Mapping[str, Any]
    since: float
    """When the first event of the object came that this one stands for."""


class _Feed:
    """Events of a kind on their way to its handler. Of each object only the latest waits, so that there are never more
    than objects, however slow Kopf is; and Kopf has one of each object at a time."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Event] = {}
        """By uid, the oldest first."""
        self._handed_over: dict[str, float] = {}
        """By uid, since when the event came that Kopf has; the oldest first."""
        self._turned = asyncio.Event()

    @property
    def age(self) -> float:
        waiting = next((event.since for event in self._waiting.values()), None)
        oldest = [since for since in (waiting, *self._handed_over.values()) if since is not None]
        return time.monotonic() - min(oldest) if oldest else 0.0

    def put(self, type_: str, value: Mapping[str, Any]) -> None:
        uid = value["metadata"]["uid"]
        before = self._waiting.get(uid)
        self._waiting[uid] = _Event(type_, value, before.since if before else time.monotonic())
        self._turned.set()

    async def take(self) -> _Event:
        while (uid := self._next()) is None:
            self._turned.clear()
            await self._turned.wait()
        event = self._waiting.pop(uid)
        self._handed_over[uid] = event.since
        return event

    def mark_heard(self, value: Mapping[str, Any]) -> None:
        self._handed_over.pop(value["metadata"]["uid"], None)
        self._turned.set()

    def _next(self) -> str | None:
        if len(self._handed_over) >= _HANDED_OVER:
            return None
        return next((uid for uid in self._waiting if uid not in self._handed_over), None)


class _Answer:
    status = 200

    def __init__(self, body: Any = None) -> None:
        self._body = body

    async def json(self) -> Any:
        return self._body

    def close(self) -> None:
        """There is no connection."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class _Watch(_Answer):
    """Without end. Events that nobody has taken yet are there for the next one."""

    def __init__(self, feed: _Feed) -> None:
        super().__init__()
        self._feed = feed

    @property
    def content(self) -> "_Watch":
        return self

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        while True:
            event = await self._feed.take()
            # Anybody may nest opaque parameters almost as deeply as a reader gets: Kopf's gets less far than ours.
            value = strict_json.limit_depth(event.value) if strict_json.is_too_deep(event.value) else event.value
            yield json.dumps({"type": event.type, "object": value}).encode() + b"\n"


def forget_watches() -> None:
    """At the end. A watch that Kopf ends while it hands on an event leaves a task, for which Kopf waits five seconds,
    and a generator, which complains of how it is closed.
    """
    for task in asyncio.all_tasks():
        if task.get_name().startswith("pause-waiter for "):
            task.cancel()
    asyncio.get_running_loop().set_exception_handler(_handle_exception)


def _handle_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if getattr(context.get("asyncgen"), "__name__", "") != "infinite_watch":
        loop.default_exception_handler(context)
