"""How long to wait before the next attempt: about twice as long each time, so that nobody tries in step with others."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import structlog

from gpusharing.kube.clock import seconds_since_boot
from gpusharing.kube.transport import ApiError, UnreachableError
from gpusharing.kube.watches import DeafError

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


async def patiently(attempt: Callable[[], Awaitable[T]], *, at_most: float = math.inf) -> T:
    """Until it succeeds: the API server may not be there yet, nor our definitions and rights. `at_most`: seconds, after
    which it is a DeafError that something cannot be read which others perhaps can."""
    delays = iter(Backoff())
    began = seconds_since_boot()
    while True:
        try:
            return await attempt()
        except (ApiError, UnreachableError) as error:
            delay = next(delays)
            log.warning("API server not ready, retrying", error=str(error), retry_in=round(delay, 1))
            # What is not served is served to nobody.
            is_absent = isinstance(error, ApiError) and error.status == 404
            if not is_absent and seconds_since_boot() - began > at_most:
                raise DeafError(str(error)) from error
        await asyncio.sleep(delay)
