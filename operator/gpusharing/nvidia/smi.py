"""The time slice. It is the one setting for which NVML has no call, so nvidia-smi is run for it."""

import os
import re
from typing import Final

from gpusharing.api.sharing.offers import Interval
from gpusharing.nvidia import programs
from gpusharing.nvidia.driver_root import DriverRoot
from gpusharing.nvidia.errors import NotSupportedError

TIMEOUT: Final = 20.0

_NUMBERS: Final = {Interval.DEFAULT: 0, Interval.SHORT: 1, Interval.MEDIUM: 2, Interval.LONG: 3}
# Nobody has published what `compute-policy --list` prints. "Timeslice: Default" is what is told of it; a table would
# have other signs between the two words. Anything else is not understood, and never guessed.
_LISTED: Final = re.compile(rf"\btime-?slice\b[\W_]*\b({'|'.join(Interval)})\b", re.IGNORECASE)


class NvidiaSmi:
    def __init__(self, root: DriverRoot) -> None:
        self._root = root

    async def time_slice(self, uuid: str) -> Interval | None:
        """None where it cannot be read, whatever the reason: what cannot be read can be set all the same."""
        result = await self._compute_policy(uuid, "-l")
        found = {name.capitalize() for name in _LISTED.findall(result.output)}
        return Interval(found.pop()) if result.code == 0 and len(found) == 1 else None

    async def set_time_slice(self, uuid: str, interval: Interval) -> None:
        result = await self._compute_policy(uuid, "--set-timeslice", str(_NUMBERS[interval]))
        if result.code == 0:
            return
        if "not supported" in result.output.lower():
            raise NotSupportedError(f"{result.command}: {result.output}", gpu=uuid)
        raise result.failed()

    async def _compute_policy(self, uuid: str, *arguments: str) -> programs.Result:
        return await programs.run(
            self._root.program("nvidia-smi"),
            "compute-policy",
            "-i",
            uuid,
            *arguments,
            # It must find the host's library, which is nowhere that a container's loader looks.
            environment=os.environ | {"LD_PRELOAD": str(self._root.nvml_library())},
            timeout=TIMEOUT,
        )
