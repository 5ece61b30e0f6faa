"""Objects of one kind as they are now, without asking for each again and again."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from agent.on_cluster import Admin
from harness.eventually import PATIENCE

Json = Mapping[str, Any]
Condition = Callable[[Json | None], bool]

_MOST_KEPT: Final = 10_000


class Following:
    def __init__(self, admin: Admin, path: str) -> None:
        self._admin = admin
        self._path = path
        self._found: dict[str, Json] = {}
        self._gone: dict[str, None] = {}
        self._news: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        version = (await self._admin.call("GET", self._path))["metadata"]["resourceVersion"]
        self._task = asyncio.create_task(self._follow(version))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._task.cancel()

    async def until(self, name: str, is_so: Condition, *, within: float = PATIENCE) -> Json | None:
        """The object once it is so: None if it has gone."""
        async with asyncio.timeout(within):
            while not ((name in self._found or name in self._gone) and is_so(self._found.get(name))):
                if self._task.done():
                    self._task.result()
                    raise AssertionError(f"{self._path} is not followed any more")
                self._news[name].clear()
                await self._news[name].wait()
        if name in self._gone:
            # Names are not used again.
            self._news.pop(name, None)
        return self._found.get(name)

    async def _follow(self, version: str) -> None:
        while True:
            async for event, value in self._admin.events(self._path, version):
                version = value["metadata"]["resourceVersion"]
                self._take_in(event, value)

    def _take_in(self, event: str, value: Json) -> None:
        name = value["metadata"]["name"]
        if event == "DELETED":
            self._found.pop(name, None)
            self._gone[name] = None
            if len(self._gone) > _MOST_KEPT:
                del self._gone[next(iter(self._gone))]
        else:
            self._found[name] = value
        if name in self._news:
            self._news[name].set()
