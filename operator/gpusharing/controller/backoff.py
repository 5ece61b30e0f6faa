"""When what failed is tried again: for each object by itself, however often the world changes meanwhile."""

import random
import time
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Final

_FIRST: Final = 0.5
_LAST: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Wait:
    delay: float
    until: float


class Backoff:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits: dict[Hashable, _Wait] = {}

    def is_due(self, key: Hashable) -> bool:
        wait = self._waits.get(key)
        return wait is None or wait.until <= self._clock()

    def failed(self, key: Hashable) -> None:
        before = self._waits.get(key)
        delay = min(2 * before.delay, _LAST) if before else _FIRST
        self._waits[key] = _Wait(delay, self._clock() + delay * random.uniform(0.8, 1.2))  # noqa: S311

    def only(self, keys: Collection[Hashable]) -> None:
        """Forgets what is not wanted any more."""
        self._waits = {key: wait for key, wait in self._waits.items() if key in keys}

    def succeeded(self, key: Hashable) -> None:
        self._waits.pop(key, None)

    @property
    def next_in(self) -> float | None:
        """Seconds until something is due again; None if nothing waits."""
        if not self._waits:
            return None
        return max(0.0, min(wait.until for wait in self._waits.values()) - self._clock())
