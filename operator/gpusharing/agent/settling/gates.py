"""Who may change a GPU now.

A gate is held by whoever changes its GPU: from the check whether a claim may have it, by way of the claim's record and
the hardware, to the files that its containers find; and while the GPU is set without a claim. So of claims that come to
a GPU at the same time, the later one finds the earlier one complete, and a slow GPU holds up no other.

What is decided in memory (what GPUs publish, which claims hold them) needs no gate: it is done without an await between
the look and the change. Whoever only reads the hardware needs none either: what was being changed meanwhile is not
believed (`Marks`).
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias

Marks: TypeAlias = Mapping[str, int]
"""By uuid: how often a gate had been taken and given back."""


class Gates:
    def __init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._reasons: dict[str, str] = {}
        self._marks: Counter[str] = Counter()

    @asynccontextmanager
    async def hold(self, uuids: Iterable[str], why: str) -> AsyncIterator[None]:
        """`why` is for those who wait meanwhile. Several are always taken in the same order, so that nobody waits for
        somebody who waits for him."""
        async with AsyncExitStack() as stack:
            for uuid in sorted(set(uuids)):
                await stack.enter_async_context(self._hold(uuid, why))
            yield

    @asynccontextmanager
    async def _hold(self, uuid: str, why: str) -> AsyncIterator[None]:
        async with self._locks[uuid]:
            self._reasons[uuid] = why
            self._marks[uuid] += 1
            try:
                yield
            finally:
                self._marks[uuid] += 1
                del self._reasons[uuid]

    def is_held(self, uuid: str) -> bool:
        return uuid in self._reasons

    def holders(self, uuids: Iterable[str]) -> str:
        """What keeps one from these GPUs."""
        return "; ".join(f"GPU {uuid}: {self._reasons[uuid]}" for uuid in sorted(uuids) if uuid in self._reasons)

    def marks(self) -> Marks:
        """To be compared by `changed_since` after something was read."""
        return Counter(self._marks)

    def changed_since(self, uuid: str, marks: Marks) -> bool:
        """Whether anybody may have changed the GPU since then, or does so now."""
        return self.is_held(uuid) or self._marks[uuid] != marks.get(uuid, 0)
