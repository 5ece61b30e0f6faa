"""Brings GPUs to where their claims want them, and back to where they were when the last claim has gone.

Level-triggered: what a GPU should be follows from the prepared claims alone, so that every step may be interrupted and
repeated. What is changed, and what was there before, is on disk before anything is changed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path

import structlog

from gpusharing.agent.hardware.errors import HardwareError, InstanceGoneError, MpsError
from gpusharing.agent.hardware.facts import GpuInstance, MigPlace
from gpusharing.agent.hardware.protocol import GpuNode
from gpusharing.agent.records import GpuSettings, Records
from gpusharing.agent.settling import targets
from gpusharing.agent.settling.drift import Drift
from gpusharing.agent.settling.mig import Mig
from gpusharing.agent.settling.mps import Mps
from gpusharing.agent.settling.settings import Settings
from gpusharing.core.publishing.gpu_health import Reason, Trouble
from gpusharing.core.publishing.mig_at_rest import Cut

log = structlog.get_logger(__name__)


class Settler:
    def __init__(
        self,
        hardware: GpuNode,
        records: Records,
        *,
        mps_home: Path,
        at_rest: Callable[[str], Cut],
        shm_home: Path | None = None,
    ) -> None:
        """`at_rest` says how a GPU is to be cut beside what its claims hold; in `shm_home` each MPS daemon has shared
        memory of its own."""
        self._records = records
        self._at_rest = at_rest
        self.drift = Drift()
        self._settings = Settings(hardware, records, self.drift)
        self._mig = Mig(hardware, records, self.drift)
        self._mps = Mps(hardware, records, self.drift, home=mps_home, shm_home=shm_home)
        self._problems: dict[str, Trouble] = {}
        # What is read while it is being set would be remembered after it was set.
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._mps_lock = asyncio.Lock()

    @property
    def mps_daemons(self) -> int:
        """How many run for claims."""
        return self._mps.running

    def problem(self, uuid: str) -> Trouble | None:
        """Why the GPU is not as its claims want it."""
        return self._problems.get(uuid)

    def forget(self) -> None:
        """Asks the hardware anew, in case somebody else has changed it."""
        self._settings.forget()
        self._mps.forget()
        self._mig.forget()

    async def current(self, uuid: str) -> GpuSettings:
        try:
            async with self._locks[uuid]:
                return await self._settings.current(uuid)
        except HardwareError as error:
            self._problems[uuid] = _trouble(error)
            raise

    async def mig_instance(self, uuid: str, place: MigPlace) -> GpuInstance:
        async with self._locks[uuid]:
            return await self._mig.instance(uuid, place)

    def mps_pipe(self, daemon: str) -> Path:
        return self._mps.pipe(daemon)

    def mps_shm(self, daemon: str) -> Path | None:
        return self._mps.shm(daemon)

    async def settle(self, uuid: str) -> None:
        try:
            async with self._locks[uuid]:
                await self._settle(uuid)
        except HardwareError as error:
            self._problems[uuid] = _trouble(error)
            raise
        self._problems.pop(uuid, None)

    async def rest(self, uuid: str) -> bool:
        """Cuts the GPU as it is to be while nobody holds it. Whether that changed anything."""
        try:
            async with self._locks[uuid]:
                return await self._mig.rest(uuid, self._at_rest(uuid))
        except HardwareError as error:
            self._problems[uuid] = _trouble(error)
            raise

    async def settle_all(self, uuids: AbstractSet[str]) -> None:
        """Each GPU for itself: one that does not obey must not keep the others from what they should be."""
        for uuid in self._known(uuids):
            try:
                await self.settle(uuid)
            except HardwareError as error:
                log.warning("GPU is not set as it should be", uuid=uuid, error=str(error))

    async def rest_all(self, uuids: AbstractSet[str]) -> bool:
        """Likewise. Whether anything was changed on any of them."""
        changed = False
        for uuid in self._known(uuids):
            try:
                changed = await self.rest(uuid) or changed
            except HardwareError as error:
                log.warning("GPU is not cut as it should be", uuid=uuid, error=str(error))
        return changed

    def _known(self, uuids: AbstractSet[str]) -> list[str]:
        # While records are lost, what seems to be free may be held by their claims.
        return [] if self._records.lost_claims else sorted(uuids)

    async def _settle(self, uuid: str) -> None:
        target = targets.of((device for _, device in self._records.claims_on(uuid)), self._at_rest(uuid))
        # What goes makes room for what comes.
        async with self._mps_lock:
            await self._mps.end(uuid)
        await self._mig.shrink(uuid, target)
        await self._settings.settle(uuid, target)
        await self._mig.grow(uuid, target)
        async with self._mps_lock:
            await self._mps.begin(uuid)


def _trouble(error: HardwareError) -> Trouble:
    match error:
        case InstanceGoneError():
            return Trouble(reason=Reason.INSTANCE_GONE, message=str(error), parts=error.gone)
        case MpsError():
            return Trouble(reason=Reason.MPS_DOWN, message=str(error))
        case _:
            return Trouble(reason=Reason.DISOBEYS, message=str(error))
