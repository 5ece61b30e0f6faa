"""How much of their GPUs the containers of claims use, by the driver's word."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpusharing.agent.containers.of_processes import ContainerClaims
from gpusharing.agent.metrics import catalogue
from gpusharing.agent.metrics.attribution import ClaimDevice
from gpusharing.agent.metrics.exposition import Metric, Reading
from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import Steps
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.agent.walls.use import memory_uses
from gpusharing.nvidia.errors import HardwareError
from gpusharing.nvidia.facts import GpuProcess
from gpusharing.nvidia.gpu_node import GpuNode

# Prometheus waits ten seconds. What the driver has not told by then is left out.
_PATIENCE: Final = 3.0
# Whoever asks more often makes the driver no busier.
_FRESH: Final = 1.0
# Seconds. Whoever computes now and then is seen, and who has stopped is not seen for long.
_UTILIZATION_OF: Final = 15.0
_MIB: Final = 1024**2


@dataclass(slots=True)
class _Used:
    """A device of a claim, and what its containers use."""

    claim: PreparedClaim
    devices: dict[int, PreparedDevice] = field(default_factory=dict)
    """By their places in the claim: several shares of one device are one."""
    processes: list[GpuProcess] = field(default_factory=list)

    @property
    def device(self) -> PreparedDevice:
        return next(iter(self.devices.values()))

    @property
    def is_tellable(self) -> bool:
        """Whether its containers can be told from others: an older agent may have prepared it."""
        return any(device.metadata for device in self.claim.devices)


class ClaimUse:
    def __init__(
        self,
        *,
        node: str,
        hardware: GpuNode,
        records: Records,
        walls: Walls,
        claims: ContainerClaims,
        cgroups: Path,
        steps: Steps,
    ) -> None:
        self._node = node
        self._hardware = hardware
        self._records = records
        self._walls = walls
        self._claims = claims
        self._cgroups = cgroups
        self._steps = steps
        self._known: Mapping[Metric, Mapping[tuple[str, ...], float]] = {}
        self._fresh_until = 0.0
        self._looking = asyncio.Lock()
        self.families = tuple(Reading(metric, self._reader(metric)) for metric in catalogue.USE)

    def _reader(self, metric: Metric) -> Callable[[], Mapping[tuple[str, ...], float]]:
        return lambda: self._known.get(metric, {})

    async def look(self) -> None:
        """Asks the driver, which `families` cannot wait for."""
        clock = asyncio.get_running_loop().time
        async with self._looking:
            if clock() < self._fresh_until:
                return
            found = _Found()
            uuids = {device.uuid for claim in self._records.claims.values() for device in claim.devices}
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await asyncio.gather(*(self._ask_apart(uuid, found) for uuid in uuids))
            self._known = found.values
            self._fresh_until = clock() + _FRESH

    async def _ask_apart(self, uuid: str, found: "_Found") -> None:
        with self._steps.step("ask who uses GPU", gpu=uuid):
            await self._ask(uuid, found)

    async def _ask(self, uuid: str, found: "_Found") -> None:
        """What fails is counted with the operation, and concerns what it was to tell alone."""
        used = self._holders(uuid)
        with suppress(HardwareError):
            strangers = await self._attribute(uuid, used)
            found.put_memory(used)
            utilization = await self._hardware.utilization(uuid, since=time.time() - _UTILIZATION_OF)
            if utilization is not None:
                found.put_utilization(used, utilization, strangers)
        for of, one in used.items():
            with suppress(HardwareError):
                await self._ask_walls(uuid, of, one, found)

    def _holders(self, uuid: str) -> dict[ClaimDevice, _Used]:
        found: dict[ClaimDevice, _Used] = {}
        for claim in self._records.claims.values():
            for index, device in enumerate(claim.devices):
                if device.uuid == uuid and not device.admin:
                    of = ClaimDevice.of(self._node, claim, device)
                    found.setdefault(of, _Used(claim)).devices[index] = device
        return found

    async def _attribute(self, uuid: str, used: Mapping[ClaimDevice, _Used]) -> Collection[int]:
        """Returns the processes that belong to none of them."""
        processes = _once(await self._hardware.processes(uuid))
        claims = await asyncio.to_thread(self._claims.of, [process.pid for process in processes])
        instances: Mapping[int, str | None] = {}
        if any(process.gpu_instance is not None for process in processes):
            state = await self._hardware.mig(uuid)
            instances = {instance.id: instance.uuid for instance in state.instances} if state else {}
        strangers = set()
        for process in processes:
            mine = [one for one in used.values() if one.claim.uid in claims.get(process.pid, ())]
            if process.gpu_instance is not None:
                mine = [one for one in mine if one.device.mig_uuid == instances.get(process.gpu_instance)]
            if mine:
                # A container with several claims on the GPU uses the first of them.
                min(mine, key=lambda one: one.claim.uid).processes.append(process)
            else:
                strangers.add(process.pid)
        return strangers

    async def _ask_walls(self, uuid: str, of: ClaimDevice, used: _Used, found: "_Found") -> None:
        """No limit where a container that is there is held to nothing. Where all are, the driver's own count is what
        it holds them to."""
        walled = {index: memory for index, device in used.devices.items() if (memory := device.settings.memory)}
        if not walled:
            return
        noted = {one for index in walled for one in self._walls.containers(used.claim.uid, index)}
        uses = (await memory_uses(self._hardware, uuid, self._cgroups, noted)).values()
        if all(uses):
            found.values[catalogue.CLAIM_MEMORY_LIMIT][of] = sum(one.limit for one in walled.values()) * _MIB
            found.values[catalogue.CLAIM_MEMORY_USED][of] = sum(use.used for use in uses if use)


class _Found:
    def __init__(self) -> None:
        self.values: defaultdict[Metric, dict[tuple[str, ...], float]] = defaultdict(dict)

    def put_memory(self, used: Mapping[ClaimDevice, _Used]) -> None:
        for of, one in used.items():
            amounts = [process.memory for process in one.processes]
            told = [amount for amount in amounts if amount is not None]
            if one.is_tellable and len(told) == len(amounts):
                self.values[catalogue.CLAIM_MEMORY_USED][of] = sum(told)

    def put_utilization(
        self, used: Mapping[ClaimDevice, _Used], utilization: Mapping[int, float], strangers: Collection[int]
    ) -> None:
        # Drivers may count the work of MPS clients for their server: then nobody knows whose it was.
        is_mixed = not utilization.keys().isdisjoint(strangers)
        for of, one in used.items():
            if one.is_tellable and not (is_mixed and one.device.settings.mps):
                parts = [utilization.get(process.pid, 0.0) for process in one.processes]
                self.values[catalogue.CLAIM_SM_UTILIZATION][of] = min(1.0, sum(parts))


def _once(processes: Iterable[GpuProcess]) -> Sequence[GpuProcess]:
    """One that also draws is in two of the driver's lists."""
    return list({(process.pid, process.gpu_instance): process for process in processes}.values())
