"""Assertions about what takes a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

# Much more than anything takes, also where the machine is busy with something else: only who fails waits so long.
PATIENCE: Final = 60.0


async def eventually(check: Callable[[], Awaitable[None]], *, within: float = PATIENCE) -> None:
    """Repeats a check while it fails, by its assertions or by looking up what is not there yet. The last failure is the
    test's."""
    began = time.monotonic()
    while True:
        asked = time.monotonic()
        try:
            await check()
        except (AssertionError, LookupError, ValueError):
            now = time.monotonic()
            waited, took = now - began, now - asked
            if waited > within:
                raise
        else:
            return
        # What happens at once is seen at once; what takes long is not asked for all the time. A check by kubectl takes
        # more processor than what it looks at.
        await asyncio.sleep(max(min(0.1, 0.01 + waited / 8), min(0.5, 2 * took)))
