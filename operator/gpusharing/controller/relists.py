"""When Kopf has listed a kind: what was deleted before that, and after our own list, it never tells.

Kopf compares a new list with nothing, at its start as after a watch that could not go on. It does not say when it
lists either, but all that it asks the API server goes through a session of ours. There a list that cannot be read to
its end is seen as well.
"""

import asyncio
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import structlog

from gpusharing.kube.kinds import Kind

log = structlog.get_logger(__name__)


class Relists:
    def __init__(self, watched: Collection[Kind[Any]], server: str) -> None:
        root = urlsplit(server).path.rstrip("/")
        self._kinds = {root + kind.path(): kind for kind in watched}
        self._listed: set[Kind[Any]] = set()
        self._complete: asyncio.Queue[Kind[Any]] = asyncio.Queue()

    async def next(self) -> Kind[Any]:
        """The next kind that was listed, when its watch begins: what is deleted from then on is told."""
        return await self._complete.get()

    async def middleware(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        kind = self._kinds.get(request.url.path)
        if kind is None:
            return await handler(request)
        if "watch" not in request.url.query:
            self._listed.add(kind)
            return _unless_expired(await handler(request), kind)
        if kind in self._listed:
            self._listed.remove(kind)
            self._complete.put_nowait(kind)
        return await handler(request)


def _unless_expired(page: aiohttp.ClientResponse, kind: Kind[Any]) -> aiohttp.ClientResponse:
    """Etcd forgets what was, and with it the rest of a list that is not read for long. Of the status that says so Kopf
    dies; when a page breaks off, it lists anew.
    """
    if page.status == 410:
        page.release()
        log.info("a list has expired", kind=kind.kind)
        raise aiohttp.ClientPayloadError(f"the list of {kind.plural} has expired")
    return page
