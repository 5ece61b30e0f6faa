"""The API server may not be there yet, nor our definitions and rights: that is waited for, and said."""

import asyncio
import math
import random
import time
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


class DeafError(Exception):
    """What must be known cannot be read: another replica may be able to."""


async def patiently(attempt: Callable[[], Awaitable[T]], *, at_most: float = math.inf) -> T:
    """`at_most`: seconds, after which an error that may be this program's alone is a DeafError."""
    backoff = _FIRST_BACKOFF
    began = time.monotonic()
    while True:
        try:
            return await attempt()
        except (ApiError, UnreachableError, NotYetError) as error:
            log.warning("waiting", error=str(error), retry_in=round(backoff, 1))
            # What is not served is not served to other replicas either.
            is_absent = isinstance(error, NotYetError) or (isinstance(error, ApiError) and error.status == 404)
            if not is_absent and time.monotonic() - began > at_most:
                raise DeafError(str(error)) from error
        await asyncio.sleep(backoff * random.uniform(0.5, 1.5))  # noqa: S311
        backoff = min(2 * backoff, _LAST_BACKOFF)
