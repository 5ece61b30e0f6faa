"""Sets GPUs as their claims want them, and back as they were when the last claim has gone.

Level-triggered: what a GPU should be follows from the prepared claims alone, so that every step may be interrupted and
repeated. What was there before is on disk before anything is changed.
"""

import asyncio
from collections import defaultdict
from typing import Final

from gpusharing.agent.hardware.errors import HardwareError, NotSupportedError
from gpusharing.agent.hardware.protocol import GpuNode
from gpusharing.agent.records import GpuBefore, PreparedDevice, Records
from gpusharing.api.sharing import Interval

# The second client of a GPU in an exclusive mode would be refused by the driver.
_SHAREABLE: Final = "Default"


class Tuner:
    def __init__(self, hardware: GpuNode, records: Records) -> None:
        self._hardware = hardware
        self._records = records
        # What this process has seen or set; asking the hardware again would cost a process for each claim.
        self._known: dict[str, GpuBefore] = {}
        self._problems: dict[str, str] = {}
        # What is read while it is being set would be remembered after it was set.
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def problem(self, uuid: str) -> str | None:
        """Why the GPU is not set as its claims want it."""
        return self._problems.get(uuid)

    def forget(self) -> None:
        """Asks the hardware anew, in case somebody else has changed it."""
        self._known.clear()

    async def current(self, uuid: str) -> GpuBefore:
        try:
            async with self._locks[uuid]:
                return await self._current(uuid)
        except HardwareError as error:
            self._problems[uuid] = str(error)
            raise

    async def _current(self, uuid: str) -> GpuBefore:
        if uuid not in self._known:
            self._known[uuid] = GpuBefore(
                time_slice=await self._hardware.time_slice(uuid), compute_mode=await self._hardware.compute_mode(uuid)
            )
        return self._known[uuid]

    async def settle(self, uuid: str) -> None:
        try:
            async with self._locks[uuid]:
                await self._settle(uuid)
        except HardwareError as error:
            self._problems[uuid] = str(error)
            raise
        self._problems.pop(uuid, None)

    async def _settle(self, uuid: str) -> None:
        wanted = _wanted_interval([device for _, device in self._records.claims_on(uuid)])
        if wanted is None:
            await self._restore(uuid)
            return
        current = await self._current(uuid)
        if current.time_slice is None and wanted is not Interval.DEFAULT:
            raise NotSupportedError(
                f"GPU {uuid} has no time slice that can be set",
                remedy=f"use interval {Interval.DEFAULT}, or another GPU",
            )
        target = GpuBefore(
            time_slice=wanted if current.time_slice else None,
            compute_mode=_SHAREABLE if current.compute_mode else None,
        )
        if self._records.before(uuid) is None and target != current:
            self._records.put_before(uuid, current)
        await self._apply(uuid, current, target)

    async def _restore(self, uuid: str) -> None:
        before = self._records.before(uuid)
        if before is None:
            return
        await self._apply(uuid, await self._current(uuid), before)
        self._records.drop_before(uuid)

    async def _apply(self, uuid: str, current: GpuBefore, target: GpuBefore) -> None:
        # Forgotten first: when a step fails, nobody knows how far it got.
        self._known.pop(uuid, None)
        if target.compute_mode and target.compute_mode != current.compute_mode:
            await self._hardware.set_compute_mode(uuid, target.compute_mode)
        if target.time_slice and target.time_slice != current.time_slice:
            await self._hardware.set_time_slice(uuid, target.time_slice)
        self._known[uuid] = target


def _wanted_interval(devices: list[PreparedDevice]) -> Interval | None:
    """All claims of a shared GPU have the interval of its policy, and a whole GPU has one claim; so there is one."""
    return next((device.settings.interval for device in devices if device.settings.interval is not None), None)
