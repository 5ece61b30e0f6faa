"""What Kopf asks the API server, and how it fares: Kopf itself does not say.

All its requests go through a session of ours. What was deleted before a list of Kopf's, and after our own, it never
tells, since it compares a new list with nothing. A list that cannot be read to its end is seen as well, and a kind that
cannot be watched.
"""

import asyncio
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import structlog

from gpusharing.kube.history import History
from gpusharing.kube.kinds import Kind
from gpusharing.kube.watches import Watches

log = structlog.get_logger(__name__)


class Relists:
    def __init__(self, watched: Collection[Kind[Any]], server: str, *, history: History, watches: Watches) -> None:
        root = urlsplit(server).path.rstrip("/")
        self._kinds = {root + kind.path(): kind for kind in watched}
        self._listed: set[Kind[Any]] = set()
        self._complete: asyncio.Queue[Kind[Any]] = asyncio.Queue()
        self._resumed: asyncio.Queue[Kind[Any]] = asyncio.Queue()
        self._history = history
        self._watches = {kind: watches.add(kind) for kind in watched}

    async def next(self) -> Kind[Any]:
        """The next kind that was listed, when its watch begins: what is deleted from then on is told."""
        return await self._complete.get()

    async def next_resumed(self) -> Kind[Any]:
        """The next kind that Kopf goes on watching from where it was."""
        return await self._resumed.get()

    async def middleware(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        kind = self._kinds.get(request.url.path)
        if kind is None:
            return await handler(request)
        is_list = "watch" not in request.url.query
        if is_list:
            self._listed.add(kind)
        elif kind in self._listed:
            self._listed.remove(kind)
            self._complete.put_nowait(kind)
        else:
            self._history.saw(kind.path(), request.url.query.get("resourceVersion", ""))
            self._resumed.put_nowait(kind)
        watch = self._watches[kind]
        try:
            response = await handler(request)
        except (aiohttp.ClientError, TimeoutError) as error:
            watch.fails(f"{type(error).__name__}: {error}")
            raise
        if response.status == 410 and is_list:
            response.release()
            raise _expired(kind)
        if response.status == 404:
            response.release()
            watch.fails(f"the API server has no {kind.plural} ({kind.api_version}): apply its definition again")
            raise _not_served(kind)
        if response.status >= 400:
            watch.fails(f"{response.status} {response.reason}")
        elif not is_list:
            watch.works()
        return response


def _expired(kind: Kind[Any]) -> Exception:
    """Etcd forgets what was, and with it the rest of a list that is not read for long. Of the status that says so Kopf
    dies; when a page breaks off, it lists anew.
    """
    log.info("a list has expired", kind=kind.kind)
    return aiohttp.ClientPayloadError(f"the list of {kind.plural} has expired")


def _not_served(kind: Kind[Any]) -> Exception:
    """Of a kind whose definition was deleted Kopf dies as well; where nobody answers, it asks again."""
    return aiohttp.ClientConnectionError(f"{kind.plural} are not served")
