"""Tells in each ResourceClaim what its devices were set to. Best effort: a claim works without it."""

import asyncio
from typing import Any, Final

import structlog

from gpusharing.agent.records import PreparedClaim, PreparedDevice
from gpusharing.api.dra import ResourceClaim
from gpusharing.core import allocation
from gpusharing.kube.clock import now
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import Api, ApiError, UnreachableError

log = structlog.get_logger(__name__)

_ATTEMPTS: Final = 5


class ClaimStatusWriter:
    def __init__(self, api: Api, driver: str) -> None:
        self._api = api
        self._driver = driver
        self._queue: asyncio.Queue[PreparedClaim] = asyncio.Queue()

    def announce(self, claim: PreparedClaim) -> None:
        self._queue.put_nowait(claim)

    async def run(self) -> None:
        while True:
            claim = await self._queue.get()
            try:
                await self._write(claim)
            except (ApiError, UnreachableError) as error:
                # 422: parameters that are not canonical JSON make every patch of this claim look like a change of what
                # is immutable. Noted once; nothing depends on it.
                log.warning("device status not written", claim=claim.display_name, error=str(error))

    async def _write(self, prepared: PreparedClaim) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            claim = await self._api.get(RESOURCE_CLAIMS, prepared.name, prepared.namespace)
            if claim.metadata.uid != prepared.uid or (
                allocation.digest(claim, self._driver) != prepared.allocation_hash
            ):
                return
            devices = device_statuses(claim, prepared, self._driver)
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


def device_statuses(claim: ResourceClaim, prepared: PreparedClaim, driver: str) -> list[dict[str, Any]]:
    """The whole list, as a merge patch replaces it: other drivers' entries as they are, ours anew."""
    ours = [entry for entry in claim.status.devices if entry.get("driver") == driver]
    others = [entry for entry in claim.status.devices if entry.get("driver") != driver]
    return others + [_entry(device, driver, ours) for device in prepared.devices]


def _entry(device: PreparedDevice, driver: str, before: list[dict[str, Any]]) -> dict[str, Any]:
    identity = {"driver": driver, "pool": device.pool, "device": device.device}
    if device.share_id:
        identity["shareID"] = device.share_id
    data: dict[str, Any] = {"uuid": device.uuid} | device.settings.to_json()
    for known in before:
        same = all(known.get(key) == identity.get(key) for key in ("driver", "pool", "device", "shareID"))
        if same and known.get("data") == data:
            return known
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Prepared",
        "message": "; ".join(device.settings.ignored),
        "lastTransitionTime": now(),
    }
    return {**identity, "conditions": [ready], "data": data}
