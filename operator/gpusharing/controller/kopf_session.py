"""What Kopf has in the place of a session with the API server: it is told what our own watches read.

Kopf would end the operator at bytes that it cannot read, which anybody who may create a claim can write, as at a list
that expires or a definition that is deleted; and it tells of no deletion that came before a list of its own. So the one
way in which all kinds are listed and watched here (`kube/reflector.py`) is Kopf's way, too.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final, Self, cast
from urllib.parse import parse_qs, urlsplit

import aiohttp
import kopf

from gpusharing.api import strict_json
from gpusharing.kube.kinds import Kind

_Event = tuple[str, Mapping[str, Any]]

# The store has taken in what there is, and Kopf watches from no version: its events wait for it.
_NOTHING_LISTED: Final = {"metadata": {"resourceVersion": "0"}, "items": []}


class KopfSession:
    """As much of a session as Kopf uses."""

    closed = False

    def __init__(self, kinds: Collection[Kind[Any]]) -> None:
        self._served = _discovery(kinds)
        self._events: Mapping[str, asyncio.Queue[_Event]] = {kind.path(): asyncio.Queue() for kind in kinds}
        self.headers = {"User-Agent": "set by the transport"}

    def hand_on(self, kind: Kind[Any], event: str, value: Mapping[str, Any]) -> None:
        """To the handler of the kind."""
        self._events[kind.path()].put_nowait((event, value))

    def login(self) -> kopf.AiohttpSession:
        # Kopf says whose session it takes; it does not look.
        return kopf.AiohttpSession(server="", aiohttp_session=cast("aiohttp.ClientSession", self))

    async def request(self, method: str, url: str, **_: Any) -> "_Answer":
        """GET, since Kopf writes nothing here."""
        if method.upper() != "GET":
            raise PermissionError(f"{method} {url}: Kopf may write nothing")
        address = urlsplit(url)
        events = self._events.get(address.path)
        if events is None:
            return _Answer(self._served[address.path])
        return _Watch(events) if "watch" in parse_qs(address.query) else _Answer(_NOTHING_LISTED)

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

    def __init__(self, events: "asyncio.Queue[_Event]") -> None:
        super().__init__()
        self._events = events

    @property
    def content(self) -> "_Watch":
        return self

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        while True:
            event, value = await self._events.get()
            # Anybody may nest opaque parameters almost as deeply as a reader gets: Kopf's gets less far than ours.
            bounded = strict_json.limit_depth(value) if strict_json.is_too_deep(value) else value
            yield json.dumps({"type": event, "object": bounded}).encode() + b"\n"


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
