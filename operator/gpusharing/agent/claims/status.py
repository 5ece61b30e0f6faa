"""Writes into each ResourceClaim which settings its devices have and whether they are healthy."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import structlog

from gpusharing.agent.health.conditions import READY, PreparedReason, condition, healthy
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import Condition
from gpusharing.api.sharing.gpu_status import HEALTHY
from gpusharing.core.claims import allocation
from gpusharing.core.publishing.gpu_health import Finding
from gpusharing.kube.clock import now
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.retry import Backoff
from gpusharing.kube.transport import Api, ApiError, UnreachableError

log = structlog.get_logger(__name__)

_BACKOFF: Final = Backoff(first=0.5, last=60.0)
# 409: another driver has written the status, or the claim has changed since it was read.
_TRY_LATER: Final = frozenset({409, 429})

Found = Sequence[tuple[Finding, ...]]
"""What is wrong with each device of a claim."""


class ClaimStatusWriter:
    """Writes one claim after the other. A write that fails is tried again later, with a delay of its own, so that it
    does not delay other claims; it then writes what is current by then."""

    def __init__(self, api: Api, driver: str, health: NodeHealth, *, on_change: Callable[[], None]) -> None:
        """`on_change`: the API does not know a prepared claim as allocated, or knows it again."""
        self._api = api
        self._driver = driver
        self._health = health
        self._on_change = on_change
        self._current: dict[str, tuple[PreparedClaim, Found]] = {}
        """By the claim's uid: what is to be written of it, or was."""
        self._due: dict[str, float] = {}
        """By the claim's uid: when it is to be written."""
        self._delays: dict[str, Iterator[float]] = {}
        """Of claims whose last write failed."""
        self._woken = asyncio.Event()

    def follow(self, claims: Iterable[PreparedClaim]) -> None:
        """Plans a write for claims that are new or have changed, whose devices became unhealthy or healthy, or whose
        allocation is in doubt."""
        before = self._current
        # The shares of a GPU are one device, and hundreds of claims may have it.
        known: dict[tuple[str, str, str | None], tuple[Finding, ...]] = {}
        self._current = {claim.uid: (claim, self._found(claim, known)) for claim in claims}
        self._due = {uid: due for uid, due in self._due.items() if uid in self._current}
        self._delays = {uid: delays for uid, delays in self._delays.items() if uid in self._current}
        to_check = self._health.unallocated.to_check
        for uid, (claim, found) in self._current.items():
            former, told = before.get(uid, (None, None))
            # One that is the same object need not be compared.
            if uid in to_check or found != told or (claim is not former and claim != former):
                # One that waits after a failure goes on waiting.
                self._due.setdefault(uid, 0)
        self._woken.set()

    def _found(self, claim: PreparedClaim, known: dict[tuple[str, str, str | None], tuple[Finding, ...]]) -> Found:
        """`known` are the findings of devices that have been looked at."""
        keys = [(device.uuid, device.device, device.mig_uuid) for device in claim.devices]
        for key, device in zip(keys, claim.devices, strict=True):
            if key not in known:
                known[key] = self._health.of_device(device)
        return [known[key] for key in keys]

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._woken.clear()
            uid = min(self._due, key=self._due.__getitem__, default=None)
            wait = None if uid is None else self._due[uid] - clock()
            if uid is None or (wait is not None and wait > 0):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), wait)
                continue
            del self._due[uid]
            claim, _ = self._current[uid]
            try:
                await self._write(claim)
            except (ApiError, UnreachableError) as error:
                # 422: parameters that are not canonical JSON make every patch of this claim look like a change of what
                # is immutable. Logged once; nothing depends on it.
                is_final = isinstance(error, ApiError) and error.status < 500 and error.status not in _TRY_LATER
                delay = None if is_final else next(self._delays.setdefault(uid, iter(_BACKOFF)))
                if delay is not None and uid in self._current:
                    self._due[uid] = clock() + delay
                log.warning(
                    "device status not written",
                    claim=claim.display_name,
                    claim_uid=uid,
                    error=str(error),
                    retry_in=delay and round(delay, 1),
                )
            else:
                self._delays.pop(uid, None)

    async def _write(self, prepared: PreparedClaim) -> None:
        claim = await self._read(prepared)
        if self._health.unallocated.mark(prepared, is_allocated=claim is not None):
            self._on_change()
        if claim is None:
            return
        devices = device_statuses(claim, prepared, self._found(prepared, {}), self._driver)
        if devices != list(claim.status.devices):
            patch = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": {"devices": devices}}
            await self._api.merge_patch(
                RESOURCE_CLAIMS, prepared.name, patch, namespace=prepared.namespace, subresource="status"
            )

    async def _read(self, prepared: PreparedClaim) -> ResourceClaim | None:
        """None: it does not have the allocation any more for which it was prepared."""
        try:
            claim = await self._api.get(RESOURCE_CLAIMS, prepared.name, prepared.namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        is_same = claim.metadata.uid == prepared.uid
        return claim if is_same and allocation.digest(claim, self._driver) == prepared.allocation_hash else None


def device_statuses(claim: ResourceClaim, prepared: PreparedClaim, found: Found, driver: str) -> list[dict[str, Any]]:
    """The whole list, because a merge patch replaces it: entries of other drivers unchanged, and our own."""
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
        condition(READY, reason=PreparedReason.PREPARED, message=ignored, before=told, now=now()),
        healthy(wrong, told, now=now()),
        *(one for one in told if one.type not in {READY, HEALTHY}),
    ]
    data = {"uuid": device.uuid} | device.settings.to_json()
    return before | identity | {"conditions": [one.to_json() for one in conditions], "data": data}


def _is_of(entry: dict[str, Any], identity: dict[str, Any]) -> bool:
    return all(entry.get(key) == identity.get(key) for key in ("driver", "pool", "device", "shareID"))
