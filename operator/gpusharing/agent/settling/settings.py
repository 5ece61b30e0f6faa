"""Time slice and compute mode of a GPU."""

from typing import Final

from gpusharing.agent.hardware.errors import NotSupportedError
from gpusharing.agent.hardware.protocol import GpuNode
from gpusharing.agent.records import GpuSettings, Records
from gpusharing.agent.settling.drift import Drift, Drifted
from gpusharing.agent.settling.targets import GpuTarget
from gpusharing.api.sharing.offers import Interval

# The second client of a GPU in an exclusive mode would be refused by the driver.
_SHAREABLE: Final = "Default"
# A program that does not find the MPS daemon would get the GPU all the same, and without limits.
_ONLY_MPS: Final = "ExclusiveProcess"


class Settings:
    def __init__(self, hardware: GpuNode, records: Records, drift: Drift) -> None:
        self._hardware = hardware
        self._records = records
        self._drift = drift
        # What this process has seen or set; asking the hardware again would cost a process for each claim.
        self._known: dict[str, GpuSettings] = {}
        # What claims have got by this process, whatever the hardware says since.
        self._settled: dict[str, GpuSettings] = {}

    def forget(self) -> None:
        self._known.clear()

    async def current(self, uuid: str) -> GpuSettings:
        known = self._known.get(uuid)
        if known is None:
            known = self._known[uuid] = GpuSettings(
                time_slice=await self._hardware.time_slice(uuid), compute_mode=await self._hardware.compute_mode(uuid)
            )
        elif known.compute_mode is None:
            # There is one again as soon as MIG mode is off.
            mode = await self._hardware.compute_mode(uuid)
            known = self._known[uuid] = known.model_copy(update={"compute_mode": mode})
        return known

    async def settle(self, uuid: str, target: GpuTarget) -> None:
        if target.interval is None and not target.mps:
            await self._restore(uuid)
            return
        current = await self.current(uuid)
        wanted = _wanted(uuid, target, current)
        journal = self._records.journal(uuid)
        if journal.settings is None and wanted != current:
            self._records.put_journal(uuid, journal.model_copy(update={"settings": current}))
        before = self._settled.pop(uuid, None)
        await self._apply(uuid, current, wanted)
        self._settled[uuid] = wanted
        if before == wanted != current:
            self._drift.was_repaired(Drifted.SETTINGS, uuid)

    async def _restore(self, uuid: str) -> None:
        self._settled.pop(uuid, None)
        journal = self._records.journal(uuid)
        if journal.settings is None:
            return
        await self._apply(uuid, await self.current(uuid), journal.settings)
        self._records.put_journal(uuid, journal.model_copy(update={"settings": None}))

    async def _apply(self, uuid: str, current: GpuSettings, wanted: GpuSettings) -> None:
        # Forgotten first: when a step fails, nobody knows how far it got.
        self._known.pop(uuid, None)
        if wanted.compute_mode and wanted.compute_mode != current.compute_mode:
            await self._hardware.set_compute_mode(uuid, wanted.compute_mode)
        if wanted.time_slice and wanted.time_slice != current.time_slice:
            await self._hardware.set_time_slice(uuid, wanted.time_slice)
        self._known[uuid] = wanted


def _wanted(uuid: str, target: GpuTarget, current: GpuSettings) -> GpuSettings:
    if current.time_slice is None and target.interval not in {None, Interval.DEFAULT}:
        raise NotSupportedError(
            f"GPU {uuid} has no time slice that can be set", remedy=f"use interval {Interval.DEFAULT}, or another GPU"
        )
    mode = _ONLY_MPS if target.mps else _SHAREABLE
    return GpuSettings(
        time_slice=(target.interval or current.time_slice) if current.time_slice else None,
        compute_mode=mode if current.compute_mode else None,
    )
