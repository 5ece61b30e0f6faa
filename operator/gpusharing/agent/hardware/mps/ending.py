"""The end of MPS processes that do not end by themselves."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from gpusharing.agent.hardware.errors import MpsHungError
from gpusharing.agent.hardware.mps import processes

_LAST_BREATH: Final = 2.0
_LOOK_EVERY: Final = 0.02


async def end_all(pipe: Path) -> None:
    """What belongs to this directory, and nothing else."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        pids = [process.pid for process in await asyncio.to_thread(processes.of_directory, pipe)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if await _have_ended(pids):
            return
    raise MpsHungError(f"MPS processes of {pipe} do not end", remedy="see the kernel's log; reboot the node")


async def _have_ended(pids: list[int]) -> bool:
    deadline = asyncio.get_running_loop().time() + _LAST_BREATH
    while left := any(map(processes.is_alive, pids)):
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(_LOOK_EVERY)
    return not left
