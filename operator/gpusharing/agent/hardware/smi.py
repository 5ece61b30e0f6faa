"""The time slice. It is the one setting for which NVML has no call, so nvidia-smi is run for it."""

import asyncio
import contextlib
import os
import re
import signal
from pathlib import Path
from typing import Final

from gpusharing.agent.hardware.errors import HardwareError, NotSupportedError
from gpusharing.api.sharing import Interval

TIMEOUT: Final = 20.0
# One that is stuck in the driver dies when the driver lets it; nobody waits for that.
_LAST_BREATH: Final = 1.0

_NUMBERS: Final = {Interval.DEFAULT: 0, Interval.SHORT: 1, Interval.MEDIUM: 2, Interval.LONG: 3}


class NvidiaSmi:
    def __init__(self, program: Path, library: Path) -> None:
        self._program = program
        # The program must find the host's library, which is nowhere that a container's loader looks.
        self._environment = os.environ | {"LD_PRELOAD": str(library)}

    async def time_slice(self, uuid: str) -> Interval:
        output = await self._run("compute-policy", "-i", uuid, "-l")
        found = re.search(r"Timeslice:\s*(\w+)", output, re.IGNORECASE)
        if found is None or found[1].capitalize() not in list(Interval):
            raise NotSupportedError(f"nvidia-smi tells no time slice of {uuid}: {output}")
        return Interval(found[1].capitalize())

    async def set_time_slice(self, uuid: str, interval: Interval) -> None:
        await self._run("compute-policy", "-i", uuid, "--set-timeslice", str(_NUMBERS[interval]))

    async def _run(self, *arguments: str) -> str:
        command = f"nvidia-smi {' '.join(arguments)}"
        try:
            process = await asyncio.create_subprocess_exec(
                self._program,
                *arguments,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                # A group of its own, so that what it starts ends with it.
                start_new_session=True,
            )
        except OSError as error:
            raise HardwareError(f"{command}: {error}") from error
        try:
            output, _ = await asyncio.wait_for(process.communicate(), TIMEOUT)
        except TimeoutError as error:
            raise HardwareError(f"{command}: no answer within {TIMEOUT:.0f} s") from error
        finally:
            if process.returncode is None:
                await _end(process)
        text = output.decode(errors="replace").strip()
        if process.returncode == 0:
            return text
        if "not supported" in text.lower():
            raise NotSupportedError(f"{command}: {text}")
        raise HardwareError(f"{command}: exit code {process.returncode}: {text or 'no output'}")


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _LAST_BREATH)
