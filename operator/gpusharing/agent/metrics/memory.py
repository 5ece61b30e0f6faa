"""How much of a GPU's memory claims have taken of what their walls allow."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from gpusharing.agent.metrics import catalogue
from gpusharing.agent.metrics.exposition import Reading
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.agent.walls.directories import NotedContainer
from gpusharing.agent.walls.use import memory_uses
from gpusharing.nvidia.errors import HardwareError
from gpusharing.nvidia.gpu_node import GpuNode

# Prometheus waits ten seconds. What the driver has not told by then is left out.
_PATIENCE: Final = 3.0
# Whoever asks more often makes the driver no busier.
_FRESH: Final = 1.0
_MIB: Final = 1024**2


class _Memory(NamedTuple):
    used: int
    limit: int


class WallMemory:
    def __init__(self, hardware: GpuNode, records: Records, walls: Walls, cgroups: Path) -> None:
        self._hardware = hardware
        self._records = records
        self._walls = walls
        self._cgroups = cgroups
        self._known: dict[tuple[str, ...], _Memory] = {}
        self._fresh_until = 0.0
        self._looking = asyncio.Lock()
        self.families = (
            Reading(catalogue.MEMORY_USED, lambda: {labels: known.used for labels, known in self._known.items()}),
            Reading(catalogue.MEMORY_LIMIT, lambda: {labels: known.limit for labels, known in self._known.items()}),
        )

    async def look(self) -> None:
        """Asks the driver, which `families` cannot wait for."""
        clock = asyncio.get_running_loop().time
        async with self._looking:
            if clock() < self._fresh_until:
                return
            found: dict[tuple[str, ...], _Memory] = {}
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._ask(found)
            self._known = found
            self._fresh_until = clock() + _FRESH

    async def _ask(self, found: dict[tuple[str, ...], _Memory]) -> None:
        for claim in list(self._records.claims.values()):
            for uuid in sorted({device.uuid for device in claim.devices if device.settings.memory}):
                # What fails is counted with the operation.
                with suppress(HardwareError):
                    memory = await self._memory(claim, uuid)
                    if memory:
                        found[claim.namespace, claim.name, uuid] = memory

    async def _memory(self, claim: PreparedClaim, uuid: str) -> _Memory | None:
        """None where a container that is there is held to nothing."""
        noted = set(self._containers(claim, uuid))
        uses = (await memory_uses(self._hardware, uuid, self._cgroups, noted)).values()
        devices = [device for device in claim.devices if device.uuid == uuid]
        limit = sum(device.settings.memory.limit for device in devices if device.settings.memory)
        used = [use.used for use in uses if use is not None]
        return _Memory(sum(used), limit * _MIB) if len(used) == len(uses) else None

    def _containers(self, claim: PreparedClaim, uuid: str) -> Iterator[NotedContainer]:
        for index, device in enumerate(claim.devices):
            if device.uuid == uuid and device.settings.memory:
                yield from self._walls.containers(claim.uid, index)
