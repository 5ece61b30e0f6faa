"""Time slice and compute mode of a GPU."""

from typing import Final

from gpusharing.agent.settling.drift import Drift, Drifted
from gpusharing.agent.settling.targets import GpuTarget
from gpusharing.agent.state.models import GpuSettings
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.offers import Interval
from gpusharing.nvidia.errors import HardwareError, NotSupportedError, SettingNotAppliedError
from gpusharing.nvidia.gpu_node import GpuNode

# The second client of a GPU in an exclusive mode would be refused by the driver.
_SHAREABLE: Final = "Default"
# A program that does not find the MPS daemon would get the GPU all the same, and without limits.
_ONLY_MPS: Final = "ExclusiveProcess"


class Settings:
    """In all `GpuSettings` here, None is a setting that nobody can read, or that is not to be changed."""

    def __init__(self, hardware: GpuNode, records: Records, drift: Drift) -> None:
        self._hardware = hardware
        self._records = records
        self._drift = drift
        # What this process has seen or set; asking the hardware again would cost a process for each claim.
        self._known: dict[str, GpuSettings] = {}
        # Also while nobody has asked the hardware again.
        self._last: dict[str, GpuSettings] = {}
        # What claims have got by this process, whatever the hardware says since.
        self._settled: dict[str, GpuSettings] = {}

    def forget(self) -> None:
        self._last |= self._known
        self._known.clear()

    def known(self, uuid: str) -> GpuSettings | None:
        """As they were last seen or set."""
        return self._known.get(uuid) or self._last.get(uuid)

    def has_read(self, uuid: str) -> bool:
        """Since they were forgotten."""
        return uuid in self._known

    async def current(self, uuid: str) -> GpuSettings:
        known = self._known.get(uuid)
        if known is None:
            known = self._known[uuid] = await self._read(uuid)
        elif known.compute_mode is None:
            # There is one again as soon as MIG mode is off.
            mode = await self._hardware.compute_mode(uuid)
            known = self._known[uuid] = known.model_copy(update={"compute_mode": mode})
        return known

    async def _read(self, uuid: str) -> GpuSettings:
        try:
            return GpuSettings(
                time_slice=await self._hardware.time_slice(uuid), compute_mode=await self._hardware.compute_mode(uuid)
            )
        except HardwareError:
            self._last[uuid] = GpuSettings()
            raise

    async def settle(self, uuid: str, target: GpuTarget) -> None:
        if target.interval is None and not target.mps:
            await self._restore(uuid)
            return
        current = await self.current(uuid)
        self._note_before(uuid, current, _wanted(target, current))
        wanted = _wanted(target, current, self._records.journal(uuid).settings)
        was_settled = self._settled.pop(uuid, None) == wanted
        await self._apply(uuid, current, wanted)
        if was_settled and _differ(current, wanted):
            await self._verify(uuid, wanted)
            self._drift.was_repaired(Drifted.SETTINGS, uuid)
        self._settled[uuid] = wanted

    def _note_before(self, uuid: str, current: GpuSettings, wanted: GpuSettings) -> None:
        """In the journal, before anything is changed."""
        journal = self._records.journal(uuid)
        noted = journal.settings
        if noted is None and _changes(current, wanted):
            noted = current
        if noted and noted.time_slice is None and wanted.time_slice:
            # What cannot be read goes back to what every driver begins with.
            noted = noted.model_copy(update={"time_slice": Interval.DEFAULT})
        if noted != journal.settings:
            self._records.put_journal(uuid, journal.model_copy(update={"settings": noted}))

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
            await self._set_time_slice(uuid, wanted.time_slice)
        self._known[uuid] = GpuSettings(
            time_slice=wanted.time_slice or current.time_slice, compute_mode=wanted.compute_mode or current.compute_mode
        )

    async def _set_time_slice(self, uuid: str, interval: Interval) -> None:
        try:
            await self._hardware.set_time_slice(uuid, interval)
        except NotSupportedError as error:
            # A GPU without the setting has no other than the default one.
            if interval is not Interval.DEFAULT:
                raise NotSupportedError(
                    error.problem, gpu=uuid, remedy=f"use interval {Interval.DEFAULT}, or another GPU"
                ) from error

    async def _verify(self, uuid: str, wanted: GpuSettings) -> None:
        """What was set and is otherwise has been changed by others, or was never obeyed."""
        self._known.pop(uuid, None)
        now = await self.current(uuid)
        if _differ(now, wanted):
            raise SettingNotAppliedError(
                f"the driver said that it set {_text(wanted)}, but it reports {_text(now)}", gpu=uuid
            )


def _wanted(target: GpuTarget, current: GpuSettings, before: GpuSettings | None = None) -> GpuSettings:
    """`before` is how it was set: an interval of earlier claims may be there that could not be restored."""
    mode = _ONLY_MPS if target.mps else _SHAREABLE
    interval = target.interval or (before.time_slice if before else None)
    return GpuSettings(time_slice=interval, compute_mode=mode if current.compute_mode else None)


def _changes(current: GpuSettings, wanted: GpuSettings) -> bool:
    return any(then and now != then for now, then in _pairs(current, wanted))


def _differ(current: GpuSettings, wanted: GpuSettings) -> bool:
    """As far as both can be told."""
    return any(now and then and now != then for now, then in _pairs(current, wanted))


def _pairs(one: GpuSettings, other: GpuSettings) -> tuple[tuple[str | None, str | None], ...]:
    return (one.time_slice, other.time_slice), (one.compute_mode, other.compute_mode)


def _text(settings: GpuSettings) -> str:
    return f"time slice {settings.time_slice} and compute mode {settings.compute_mode}"
