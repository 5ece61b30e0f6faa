"""Tells in each ResourceClaim what its devices were set to and whether they are well. Best effort: a claim works
without it."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

import structlog

from gpusharing.agent.conditions import READY, condition, healthy
from gpusharing.agent.health import NodeHealth
from gpusharing.agent.records import PreparedClaim, PreparedDevice
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import Condition
from gpusharing.core.claims import allocation
from gpusharing.core.publishing.gpu_health import HEALTHY, Finding
from gpusharing.kube.clock import now
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import Api, ApiError, UnreachableError

log = structlog.get_logger(__name__)

_ATTEMPTS: Final = 5

Found = Sequence[tuple[Finding, ...]]
"""What is wrong with each device of a claim."""


class ClaimStatusWriter:
    def __init__(self, api: Api, driver: str, health: NodeHealth) -> None:
        self._api = api
        self._driver = driver
        self._health = health
        self._queue: asyncio.Queue[PreparedClaim] = asyncio.Queue()
        self._told: dict[str, Found] = {}
        """By the claim's uid: with what health it was announced."""

    def announce(self, claim: PreparedClaim) -> None:
        self._told[claim.uid] = self._found(claim)
        self._queue.put_nowait(claim)

    def follow(self, claims: Iterable[PreparedClaim]) -> None:
        """Announces those of them whose devices have become ill or well."""
        held = {claim.uid: claim for claim in claims}
        self._told = {uid: found for uid, found in self._told.items() if uid in held}
        for uid, claim in held.items():
            if self._told.get(uid) != self._found(claim):
                self.announce(claim)

    def _found(self, claim: PreparedClaim) -> Found:
        return [self._health.of_device(device) for device in claim.devices]

    async def run(self) -> None:
        while True:
            claim = await self._queue.get()
            try:
                await self._write(claim)
            except (ApiError, UnreachableError) as error:
                # 422: parameters that are not canonical JSON make every patch of this claim look like a change of what
                # is immutable. Noted once; nothing depends on it.
                log.warning(
                    "device status not written", claim=claim.display_name, claim_uid=claim.uid, error=str(error)
                )
                if isinstance(error, UnreachableError):
                    # To be tried again with the next round.
                    self._told.pop(claim.uid, None)

    async def _write(self, prepared: PreparedClaim) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            claim = await self._api.get(RESOURCE_CLAIMS, prepared.name, prepared.namespace)
            if claim.metadata.uid != prepared.uid or (
                allocation.digest(claim, self._driver) != prepared.allocation_hash
            ):
                return
            devices = device_statuses(claim, prepared, self._found(prepared), self._driver)
            if devices == list(claim.status.devices):
                return
            patch = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": {"devices": devices}}
            try:
                await self._api.merge_patch(
                    RESOURCE_CLAIMS, prepared.name, patch, namespace=prepared.namespace, subresource="status"
                )
            except ApiError as error:
                if error.status != 409 or attempt == _ATTEMPTS:
                    raise
            else:
                return


def device_statuses(claim: ResourceClaim, prepared: PreparedClaim, found: Found, driver: str) -> list[dict[str, Any]]:
    """The whole list, as a merge patch replaces it: other drivers' entries as they are, ours anew."""
    ours = [entry for entry in claim.status.devices if entry.get("driver") == driver]
    others = [entry for entry in claim.status.devices if entry.get("driver") != driver]
    return others + [_entry(device, wrong, driver, ours) for device, wrong in zip(prepared.devices, found, strict=True)]


def _entry(
    device: PreparedDevice, wrong: tuple[Finding, ...], driver: str, ours: list[dict[str, Any]]
) -> dict[str, Any]:
    identity = {"driver": driver, "pool": device.pool, "device": device.device}
    if device.share_id:
        identity["shareID"] = device.share_id
    before = next((entry for entry in ours if _is_of(entry, identity)), {})
    told = [Condition.model_validate(one) for one in before.get("conditions", ())]
    ignored = "; ".join(device.settings.ignored)
    conditions = [
        condition(READY, is_so=True, reason="Prepared", message=ignored, before=told, now=now()),
        healthy(wrong, told, now=now()),
        *(one for one in told if one.type not in {READY, HEALTHY}),
    ]
    data = {"uuid": device.uuid} | device.settings.to_json()
    return before | identity | {"conditions": [one.to_json() for one in conditions], "data": data}


def _is_of(entry: dict[str, Any], identity: dict[str, Any]) -> bool:
    return all(entry.get(key) == identity.get(key) for key in ("driver", "pool", "device", "shareID"))
