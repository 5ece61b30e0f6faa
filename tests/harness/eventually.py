"""Assertions about what takes a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def eventually(check: Callable[[], Awaitable[None]], *, within: float = 20) -> None:
    """Repeats a check while its assertions fail; the last failure is the test's."""
    deadline = time.monotonic() + within
    while True:
        try:
            await check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        else:
            return
        await asyncio.sleep(0.1)
