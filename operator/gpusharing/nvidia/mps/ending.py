"""The end of MPS processes that do not end by themselves."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from gpusharing.nvidia.errors import MpsHungError
from gpusharing.nvidia.mps import processes

_LAST_BREATH: Final = 2.0
_LOOK_EVERY: Final = 0.02


async def end_all(directory: Path, mark: str) -> None:
    """The processes that have this mark, and no others."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await _have_ended(await asyncio.to_thread(_send, number, mark)):
            return
    raise MpsHungError(f"MPS processes of {directory} do not end", remedy="see the kernel's log; reboot the node")


def _send(number: signal.Signals, mark: str) -> list[int]:
    pids = [process.pid for process in processes.with_mark(mark)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                # Its number may be another's by now.
                if processes.read(pid, mark):
                    signal.pidfd_send_signal(process, number)
            finally:
                os.close(process)
    return pids


async def _have_ended(pids: list[int]) -> bool:
    deadline = asyncio.get_running_loop().time() + _LAST_BREATH
    while left := any(map(processes.is_alive, pids)):
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(_LOOK_EVERY)
    return not left
