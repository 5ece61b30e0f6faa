"""Assertions about what takes a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

# Much more than anything takes, also where the machine is busy with something else: only who fails waits so long.
PATIENCE: Final = 60.0


async def eventually(check: Callable[[], Awaitable[None]], *, within: float = PATIENCE) -> None:
    """Repeats a check while its assertions fail; the last failure is the test's."""
    began = time.monotonic()
    while True:
        try:
            await check()
        except AssertionError:
            waited = time.monotonic() - began
            if waited > within:
                raise
        else:
            return
        # What happens at once is seen at once; what takes long is not asked for all the time.
        await asyncio.sleep(min(0.1, 0.01 + waited / 8))
