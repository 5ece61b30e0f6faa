"""Files that are forced to the disk, which takes as long as the disk takes: in a thread, in the order of the calls."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Generic, TypeVar

from gpusharing.agent.state.files import Envelopes
from gpusharing.api.base import ApiModel

M = TypeVar("M", bound=ApiModel)
T = TypeVar("T")


class DurableRecords(Generic[M]):
    """What they say is in memory at once. So whoever decides on it without waiting sees what others have decided."""

    def __init__(self, files: Envelopes[M], contents: dict[str, M], disk: Executor) -> None:
        """`disk` has one thread."""
        self._files = files
        self._contents = contents
        self._disk = disk
        self._late: set[str] = set()
        """Keys of which the disk is to get what the memory has."""
        self._writing: Counter[str] = Counter()

    @property
    def contents(self) -> Mapping[str, M]:
        return self._contents

    @property
    def failure(self) -> OSError | None:
        return self._files.failure

    def keep(self, key: str, content: M) -> None:
        """Writes it with the next `flush`, or as soon as that is possible."""
        self._contents[key] = content
        self._late.add(key)

    def put(self, key: str, content: M) -> Awaitable[None]:
        """In memory when it returns, on the disk when it was awaited. With an OSError, nothing is changed."""
        before, was_late = self._contents.get(key), key in self._late
        if before == content and not was_late and not self._writing[key]:
            return _nothing()
        self._contents[key] = content
        self._late.discard(key)
        return self._put(key, content, before, self._write(key, content), was_late=was_late)

    async def _put(self, key: str, content: M, before: M | None, write: Awaitable[None], *, was_late: bool) -> None:
        try:
            await write
        except OSError:
            # Unless somebody has gone on from there: then it is his to write.
            if self._contents[key] is content:
                self._go_back(key, before)
            if was_late:
                self._late.add(key)
            raise

    def _go_back(self, key: str, before: M | None) -> None:
        if before is None:
            del self._contents[key]
        else:
            self._contents[key] = before

    async def flush(self) -> None:
        """What cannot be written stays late; `failure` says why."""
        late, self._late = self._late, set()
        for key in sorted(late & self._contents.keys()):
            try:
                await self._write(key, self._contents[key])
            except OSError:
                self._late.add(key)

    async def renew(self, *, but: Collection[str] = ()) -> list[Path]:
        """Writes the files that others have deleted, and what is late. Returns the former."""
        await self.flush()
        contents = {key: content for key, content in self._contents.items() if key not in self._late and key not in but}
        return await asyncio.shield(self._in_thread(lambda: self._files.renew(contents)))

    def _write(self, key: str, content: M) -> Awaitable[None]:
        self._writing[key] += 1
        writing = self._in_thread(lambda: self._files.write(key, content))
        writing.add_done_callback(lambda _: self._writing.subtract([key]))
        # Done also if nobody waits any more: what is in memory must come to the disk.
        return asyncio.shield(writing)

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._disk, work)


async def _nothing() -> None:
    pass
