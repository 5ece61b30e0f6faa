"""Listens to the GPUs, and looks at them now and then, and when they have told something bad."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.inspection.survey import Survey
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.nvidia.errors import DriverDownError, DriverExchangedError, HardwareError
from gpusharing.nvidia.gpu_node import GpuNode

log = structlog.get_logger(__name__)

_LISTEN_EVERY: Final = 1.0
# So often although nothing was heard, and no more often whatever is heard.
_LOOK_EVERY: Final = 60.0
_LOOK_AT_MOST_EVERY: Final = 5.0


class Watch:
    def __init__(
        self,
        *,
        hardware: GpuNode,
        survey: Survey,
        walls: Walls,
        health: NodeHealth,
        settler: Settler,
        on_change: Callable[[], None],
    ) -> None:
        self._hardware = hardware
        self._survey = survey
        self._walls = walls
        self._health = health
        self._settler = settler
        self._on_change = on_change
        self._error = ""

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        looked_at, wanted = clock() - _LOOK_AT_MOST_EVERY, False
        while True:
            wanted = await self._listen() or wanted
            since = clock() - looked_at
            if since >= _LOOK_EVERY or (wanted and since >= _LOOK_AT_MOST_EVERY):
                wanted = not await self._look()
                looked_at = clock()
            await asyncio.sleep(_LISTEN_EVERY)

    async def _listen(self) -> bool:
        """Whether it is time for a look."""
        try:
            events = await self._hardware.events()
        except HardwareError as error:
            return not self._answers(error)
        if not events:
            return False
        try:
            return self._health.record_events(events)
        except OSError as error:
            log.error("health not written to disk", error=str(error))  # noqa: TRY400 (the disk's fault, not ours)
            return True
        finally:
            self._on_change()

    async def _look(self) -> bool:
        """Whether the driver is there."""
        try:
            await self._survey.take()
            self._walls.renew()
        except HardwareError as error:
            return self._answers(error)
        except OSError as error:
            log.error("health not written to disk", error=str(error))  # noqa: TRY400 (as above)
        self._error = ""
        # Others may have changed what it remembers.
        self._settler.forget()
        self._on_change()
        return True

    def _answers(self, error: HardwareError) -> bool:
        if isinstance(error, DriverExchangedError):
            # A library that is loaded cannot be exchanged: the next agent loads the new one.
            raise error
        # A second that passes makes no new error of it.
        if type(error).__name__ != self._error:
            self._error = type(error).__name__
            log.warning("GPU driver not responding", error=str(error))
            if isinstance(error, DriverDownError):
                self._health.record_driver_down(error)
                self._on_change()
        return not isinstance(error, DriverDownError)
