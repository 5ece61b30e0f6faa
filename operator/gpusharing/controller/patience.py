"""The API server may not be there yet, nor our definitions and rights: that is waited for, and said."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from gpusharing.kube.transport import ApiError, UnreachableError

T = TypeVar("T")

log = structlog.get_logger(__name__)

_FIRST_BACKOFF: Final = 0.2
_LAST_BACKOFF: Final = 15.0


class NotYetError(Exception):
    """Something is missing that will come."""


async def patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    backoff = _FIRST_BACKOFF
    while True:
        try:
            return await attempt()
        except (ApiError, UnreachableError, NotYetError) as error:
            log.warning("waiting", error=str(error), retry_in=round(backoff, 1))
        await asyncio.sleep(backoff * random.uniform(0.5, 1.5))  # noqa: S311
        backoff = min(2 * backoff, _LAST_BACKOFF)
