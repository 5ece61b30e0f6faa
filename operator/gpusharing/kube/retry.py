"""How long to wait before the next attempt: about twice as long each time, so that nobody tries in step with others."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import structlog

from gpusharing.kube.transport import ApiError, UnreachableError

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds, without end; each iteration begins with the first one."""

    first: float = 0.2
    last: float = 15.0

    def __iter__(self) -> Iterator[float]:
        delay = self.first
        while True:
            yield delay * random.uniform(0.5, 1.5)  # noqa: S311
            delay = min(2 * delay, self.last)


async def patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Until it succeeds: the API server may not be there yet, nor our definitions and rights."""
    delays = iter(Backoff())
    while True:
        try:
            return await attempt()
        except (ApiError, UnreachableError) as error:
            delay = next(delays)
            log.warning("API server not ready, retrying", error=str(error), retry_in=round(delay, 1))
        await asyncio.sleep(delay)
