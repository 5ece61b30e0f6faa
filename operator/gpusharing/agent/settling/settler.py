"""Brings GPUs to where their claims want them, and back to where they were when the last claim has gone.

Level-triggered: what a GPU should be follows from the prepared claims alone, so that every step may be interrupted and
repeated. What is changed, and what was there before, is on disk before anything is changed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from gpusharing.agent.settling import targets
from gpusharing.agent.settling.drift import Drift
from gpusharing.agent.settling.gates import Gates
from gpusharing.agent.settling.mig import Mig
from gpusharing.agent.settling.mps import Mps
from gpusharing.agent.settling.settings import Settings
from gpusharing.agent.settling.targets import GpuTarget
from gpusharing.agent.state.models import GpuSettings
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.gpu_status import Reason
from gpusharing.core.publishing.gpu_health import Trouble
from gpusharing.core.publishing.mig_at_rest import Cut
from gpusharing.nvidia.errors import HardwareError, InstanceMissingError, MpsError
from gpusharing.nvidia.facts import GpuInstance, MigPlace
from gpusharing.nvidia.gpu_node import GpuNode

log = structlog.get_logger(__name__)

_SETTLING: Final = "settings of its claims are being applied"


class Settler:
    def __init__(
        self,
        hardware: GpuNode,
        records: Records,
        *,
        mps_home: Path,
        at_rest: Callable[[str], Cut],
        gates: Gates | None = None,
        on_settled: Callable[[], None] = lambda: None,
    ) -> None:
        """`at_rest` says how a GPU is to be cut beside what its claims hold; `mps_home` is for MPS daemons only;
        `on_settled` is called when a GPU was set that nobody waited for."""
        self._records = records
        self._at_rest = at_rest
        self.gates = gates or Gates()
        self._on_settled = on_settled
        self.drift = Drift()
        self._settings = Settings(hardware, records, self.drift)
        self._mig = Mig(hardware, records, self.drift)
        self._mps = Mps(hardware, records, self.drift, home=mps_home)
        self._problems: dict[str, Trouble] = {}
        # As which each GPU was last settled. One that failed, or may have been changed by others, is not among them.
        self._settled: dict[str, GpuTarget] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._late: set[asyncio.Task[None]] = set()
        """Tasks that nobody waits for any more."""
        self._leaving: set[asyncio.Task[None]] = set()
        self._was_cut = False

    @property
    def mps_daemons(self) -> int:
        """How many run for claims."""
        return self._mps.running

    def problem(self, uuid: str) -> Trouble | None:
        """Why the GPU is not as its claims want it."""
        return self._problems.get(uuid)

    def known(self, uuid: str) -> GpuSettings | None:
        """Time slice and compute mode as they were last seen or set; None: nobody has looked yet."""
        return self._settings.known(uuid)

    def forget(self) -> None:
        """Asks the hardware anew, in case somebody else has changed it."""
        self._settled.clear()
        self._settings.forget()
        self._mps.forget()
        self._mig.forget()

    async def mig_instance(self, uuid: str, place: MigPlace) -> GpuInstance:
        return await self._mig.instance(uuid, place)

    def mps_pipe(self, daemon: str) -> Path:
        return self._mps.pipe(daemon)

    def mps_shm(self, daemon: str) -> Path:
        return self._mps.shm(daemon)

    def is_settled(self, uuid: str) -> bool:
        """Whether the GPU is as its claims want it now, for all that is known."""
        return self._settled.get(uuid) == self._target(uuid)

    async def settle(self, uuid: str) -> None:
        """With the GPU's gate, as all that follow."""
        self._settled.pop(uuid, None)
        target = self._target(uuid)
        try:
            await self._settle(uuid, target)
        except HardwareError as error:
            self._problems[uuid] = _trouble(error)
            raise
        self._problems.pop(uuid, None)
        if not self._records.lost_claims:
            self._settled[uuid] = target

    async def rest(self, uuid: str) -> bool:
        """Cuts the GPU as it is to be while nobody holds it. Whether that changed anything."""
        try:
            return await self._mig.rest(uuid, self._at_rest(uuid))
        except HardwareError as error:
            self._settled.pop(uuid, None)
            self._problems[uuid] = _trouble(error)
            raise

    async def current(self, uuid: str) -> GpuSettings:
        try:
            return await self._settings.current(uuid)
        except HardwareError as error:
            self._settled.pop(uuid, None)
            self._problems[uuid] = _trouble(error)
            raise

    async def settle_all(self, uuids: AbstractSet[str]) -> None:
        """Each GPU for itself: one that does not obey must not keep the others from what they should be."""
        for uuid in self._trusted(uuids):
            await self._for_itself(uuid, self.settle)

    async def _for_itself(self, uuid: str, work: Callable[[str], Awaitable[None]]) -> None:
        try:
            await work(uuid)
        except (HardwareError, OSError) as error:
            log.warning("GPU settings not applied", uuid=uuid, error=str(error))
        except Exception as error:  # noqa: BLE001 (a bug concerns this GPU only)
            self._note_bug(uuid, error)

    def _note_bug(self, uuid: str, error: Exception) -> None:
        message = f"internal error {type(error).__name__}: {error}: report it as a bug with the agent's log"
        trouble = Trouble(reason=Reason.SETTING_NOT_APPLIED, message=message)
        if self._problems.get(uuid) != trouble:
            log.error("internal error", uuid=uuid, exc_info=error)
        self._problems[uuid] = trouble

    def recover(self, uuids: AbstractSet[str]) -> asyncio.Future[None]:
        """Settles each GPU for itself, before anybody who comes for it from now on."""
        why = "the agent has restarted and completes an earlier change"
        tasks = [asyncio.create_task(self._settle_alone(uuid, why)) for uuid in self._trusted(uuids)]

        async def wait() -> None:
            await asyncio.gather(*tasks)

        return asyncio.create_task(wait())

    async def settle_without(self, uuids: AbstractSet[str], *, within: float | None = None) -> None:
        """Sets these GPUs once a claim has left them, and waits for that at most so many seconds. A GPU that cannot be
        set back now holds up nobody: what it goes back to is on disk, and it is tried again."""
        why = "its former settings are being restored after a claim"
        tasks = [asyncio.create_task(self._settle_alone(uuid, why)) for uuid in self._trusted(uuids)]
        if tasks:
            # Somebody has to know of them until they end.
            self._leaving |= set(tasks)
            for task in tasks:
                task.add_done_callback(self._leaving.discard)
            done, _ = await asyncio.wait(tasks, timeout=within)
            for task in done:
                task.result()

    async def _settle_alone(self, uuid: str, why: str) -> None:
        try:
            async with self.gates.hold({uuid}, why):
                await self._for_itself(uuid, self.settle)
        finally:
            self._on_settled()

    async def settle_due(self, uuids: AbstractSet[str], *, within: float) -> bool:
        """Begins to settle the GPUs that may not be as they should, each for itself, and waits so many seconds for
        them; `on_settled` tells of later ones. A GPU that somebody has the gate of is left to him. Whether any was cut
        anew since this was last asked."""
        for uuid in self._trusted(uuids):
            if uuid not in self._tasks and not self.gates.is_held(uuid) and self._is_due(uuid):
                self._tasks[uuid] = asyncio.create_task(self._settle_and_rest(uuid))
        if self._tasks:
            done, self._late = await asyncio.wait(self._tasks.values(), timeout=within)
            self._tasks = {uuid: task for uuid, task in self._tasks.items() if task in self._late}
            for task in done:
                task.result()
        was_cut, self._was_cut = self._was_cut, False
        return was_cut

    async def _set_and_cut(self, uuid: str) -> None:
        await self.settle(uuid)
        self._was_cut = await self.rest(uuid) or self._was_cut

    def _is_due(self, uuid: str) -> bool:
        return not self.is_settled(uuid) or not self._settings.has_read(uuid)

    async def _settle_and_rest(self, uuid: str) -> None:
        before = self._problems.get(uuid)
        async with self.gates.hold({uuid}, _SETTLING):
            await self._for_itself(uuid, self._set_and_cut)
            with suppress(HardwareError):
                # For the report, however it is set.
                await self.current(uuid)
        # The same problem again is no news: whoever comes next tries again.
        if asyncio.current_task() in self._late and (uuid in self._settled or self._problems.get(uuid) != before):
            self._on_settled()

    def _trusted(self, uuids: AbstractSet[str]) -> list[str]:
        # While records are lost, what seems to be free may be held by their claims.
        return [] if self._records.lost_claims else sorted(uuids)

    def _target(self, uuid: str) -> GpuTarget:
        return targets.of((device for _, device in self._records.claims_on(uuid)), self._at_rest(uuid))

    async def _settle(self, uuid: str, target: GpuTarget) -> None:
        # What goes makes room for what comes. What a claim uses whose record is lost only seems to be free.
        if not self._records.lost_claims:
            await self._mps.end(uuid)
            await self._mig.shrink(uuid, target)
        await self._settings.settle(uuid, target)
        await self._mig.grow(uuid, target)
        await self._mps.begin(uuid)


def _trouble(error: HardwareError) -> Trouble:
    match error:
        case InstanceMissingError():
            return Trouble(reason=Reason.INSTANCE_MISSING, message=str(error), parts=error.gone)
        case MpsError():
            return Trouble(reason=Reason.MPS_DOWN, message=str(error))
        case _:
            return Trouble(reason=Reason.SETTING_NOT_APPLIED, message=str(error))
