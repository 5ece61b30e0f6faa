"""When Kopf has listed a kind: what was deleted before that, and after our own list, it never tells.

Kopf compares a new list with nothing, at its start as after a watch that could not go on. It does not say when it
lists either, but all that it asks the API server goes through a session of ours.
"""

import asyncio
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from gpusharing.kube.kinds import Kind


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
        if kind is not None and "watch" not in request.url.query:
            self._listed.add(kind)
        elif kind in self._listed:
            self._listed.remove(kind)
            self._complete.put_nowait(kind)
        return await handler(request)
