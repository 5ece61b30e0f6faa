"""The uuids of MIG instances that were made for claims, by which monitoring knows them, in the ResourceSlices.

Every write of a slice wakes all pods that wait for devices. So a uuid goes with whatever is written next. If nothing
is, it is written when the claim has stayed for as long as narrowing waits before it writes because of a claim.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.settling import targets
from gpusharing.agent.state.records import Records
from gpusharing.api.dra import ResourceSlice
from gpusharing.api.sharing.gpu_status import Reason
from gpusharing.core.devices.gpu import MigInstance

ByGpu = Mapping[str, Sequence[MigInstance]]


class InstanceUuids:
    def __init__(self, records: Records, health: NodeHealth, *, patience: float) -> None:
        self._records = records
        self._health = health
        self._patience = patience
        self._since: dict[str, float] = {}

    def made(self, gpus: Iterable[str]) -> ByGpu:
        """All that are there, by the GPU's uuid."""
        return {uuid: tuple(self._made_on(uuid)) for uuid in gpus}

    def due(self, made: ByGpu, slices: Iterable[ResourceSlice], *, now: float) -> ByGpu:
        """Those that are worth a write, and those that are published already."""
        told = _told(slices)
        for uuid in {one.uuid for found in made.values() for one in found if one.uuid}:
            self._since.setdefault(uuid, now)
        return {
            gpu: tuple(one for one in found if one.uuid in told or self._is_over(one, now))
            for gpu, found in made.items()
        }

    def next_due(self, *, now: float) -> float:
        """When time alone will make another one due. Those that are gone are forgotten."""
        there = {device.mig_uuid for claim in self._records.claims.values() for device in claim.devices}
        self._since = {uuid: since for uuid, since in self._since.items() if uuid in there}
        moments = (since + self._patience for since in self._since.values())
        return min((moment for moment in moments if moment > now), default=math.inf)

    def _made_on(self, uuid: str) -> Iterable[MigInstance]:
        gone = _gone(self._health, uuid)
        for _, device in self._records.claims_on(uuid):
            place = targets.place_of(device.device)
            if place and device.mig_uuid and device.mig_uuid not in gone:
                yield MigInstance(place=place, uuid=device.mig_uuid)

    def _is_over(self, instance: MigInstance, now: float) -> bool:
        return instance.uuid is not None and self._since[instance.uuid] + self._patience <= now


def _gone(health: NodeHealth, uuid: str) -> Collection[str]:
    """Somebody else has destroyed them."""
    findings = (one for one in health.findings(uuid) if one.reason is Reason.INSTANCE_MISSING)
    return {part for finding in findings for part in finding.parts}


def _told(slices: Iterable[ResourceSlice]) -> Collection[str]:
    devices = (device for one in slices for device in one.spec.get("devices") or ())
    return {device.get("attributes", {}).get("uuid", {}).get("string") for device in devices}
