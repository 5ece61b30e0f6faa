"""The time slice. It is the one setting for which NVML has no call, so nvidia-smi is run for it."""

import os
import re
from typing import Final

from gpusharing.agent.hardware import programs
from gpusharing.agent.hardware.driver_root import DriverRoot
from gpusharing.agent.hardware.errors import DisobeyedError, NotSupportedError
from gpusharing.agent.hardware.facts import Change
from gpusharing.api.sharing.offers import Interval

TIMEOUT: Final = 20.0

_NUMBERS: Final = {Interval.DEFAULT: 0, Interval.SHORT: 1, Interval.MEDIUM: 2, Interval.LONG: 3}


class NvidiaSmi:
    def __init__(self, root: DriverRoot) -> None:
        self._root = root

    async def time_slice(self, uuid: str) -> Interval:
        output = await self._compute_policy(uuid, "-l")
        found = re.search(r"Timeslice:\s*(\w+)", output, re.IGNORECASE)
        if found is None or found[1].capitalize() not in list(Interval):
            raise NotSupportedError(f"nvidia-smi tells no time slice of {uuid}: {output}", gpu=uuid)
        return Interval(found[1].capitalize())

    async def set_time_slice(self, uuid: str, interval: Interval) -> Change[Interval]:
        found = await self.time_slice(uuid)
        if found == interval:
            return Change(found, found)
        await self._compute_policy(uuid, "--set-timeslice", str(_NUMBERS[interval]))
        now = await self.time_slice(uuid)
        if now != interval:
            raise DisobeyedError(f"nvidia-smi said that it set the time slice to {interval}, but it is {now}", gpu=uuid)
        return Change(found, now)

    async def _compute_policy(self, uuid: str, *arguments: str) -> str:
        result = await programs.run(
            self._root.program("nvidia-smi"),
            "compute-policy",
            "-i",
            uuid,
            *arguments,
            # It must find the host's library, which is nowhere that a container's loader looks.
            environment=os.environ | {"LD_PRELOAD": str(self._root.nvml_library())},
            timeout=TIMEOUT,
        )
        if result.code == 0:
            return result.output
        if "not supported" in result.output.lower():
            raise NotSupportedError(f"{result.command}: {result.output}", gpu=uuid)
        raise result.failed()
