"""NodePrepareResources and NodeUnprepareResources, claim by claim. Both may be repeated and interrupted anywhere."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from gpusharing.agent.cdi import CdiDirectory, UnresolvableError, our_device
from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.errors import HardwareError
from gpusharing.agent.records import PreparedClaim, PreparedDevice, Records
from gpusharing.agent.tuning import Tuner
from gpusharing.api import names
from gpusharing.api.dra import AllocationConfig, AllocationResult, ResourceClaim
from gpusharing.api.sharing import DeviceSettings
from gpusharing.core import allocation, settings
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import Api, ApiError, UnreachableError

log = structlog.get_logger(__name__)


class PrepareError(Exception):
    """This claim cannot be prepared. The message reaches the pod's events."""


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as the kubelet names it."""

    uid: str
    namespace: str
    name: str


class Preparer:
    def __init__(
        self,
        *,
        node: str,
        driver: str,
        api: Api,
        records: Records,
        gpus: NodeGpus,
        tuner: Tuner,
        cdi: CdiDirectory,
        on_prepared: Callable[[PreparedClaim], None],
        on_change: Callable[[], None],
    ) -> None:
        self._node = node
        self._driver = driver
        self._api = api
        self._records = records
        self._gpus = gpus
        self._tuner = tuner
        self._cdi = cdi
        self._on_prepared = on_prepared
        self._on_change = on_change
        # Claims, offers and settings of the node change one at a time.
        self.gate = asyncio.Lock()

    async def prepare(self, ref: ClaimRef) -> PreparedClaim:
        try:
            claim = await self._claim(ref)
            async with self.gate:
                return await self._prepare(claim)
        except (HardwareError, settings.SettingsError, UnresolvableError, OSError) as error:
            raise PrepareError(f"claim {ref.namespace}/{ref.name}: {error}") from error
        except (ApiError, UnreachableError) as error:
            raise PrepareError(f"claim {ref.namespace}/{ref.name} cannot be read: {error}") from error

    async def unprepare(self, ref: ClaimRef) -> None:
        try:
            async with self.gate:
                await self._unprepare(ref.uid)
        except OSError as error:
            raise PrepareError(f"claim {ref.namespace}/{ref.name}: {error}") from error

    async def recover(self) -> None:
        """After a start: CDI specs and GPU settings follow from the claims on disk, whatever happened in between."""
        async with self.gate:
            for uid in self._cdi.claims():
                if uid not in self._records.claims:
                    self._cdi.delete(uid)
            self.follow()
            for claim in self._records.claims.values():
                self._cdi.write(claim.uid, claim.devices)
            await self.settle({*self._records.changed_gpus, *self._gpus.uuids})

    def follow(self) -> None:
        """Claims on a shared GPU have what the GPU is set to now, not what it was set to when they came."""
        for claim in list(self._records.claims.values()):
            devices = tuple(self._followed(device) for device in claim.devices)
            if devices != claim.devices:
                # The record comes last: until then it is done again.
                self._cdi.write(claim.uid, devices)
                followed = claim.model_copy(update={"devices": devices})
                self._records.put_claim(followed)
                self._on_prepared(followed)

    def _followed(self, device: PreparedDevice) -> PreparedDevice:
        shared = names.sharing_of_device(device.device) is names.Sharing.TIME_SLICING
        if not shared or device.admin or device.uuid not in self._gpus.uuids:
            return device
        offered = self._gpus.published(device.uuid)
        return device.model_copy(update={"settings": settings.follow(device.settings, offered.offers, offered.policy)})

    async def settle(self, uuids: set[str]) -> None:
        """Each GPU for itself: one that does not obey must not keep the others from what they should be."""
        for uuid in sorted(uuids):
            try:
                await self._tuner.settle(uuid)
            except HardwareError as error:
                log.warning("GPU is not set as it should be", uuid=uuid, error=str(error))

    async def _claim(self, ref: ClaimRef) -> ResourceClaim:
        claim = await self._api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
        if claim.metadata.uid != ref.uid:
            raise PrepareError(
                f"claim {ref.namespace}/{ref.name}: the kubelet asks for uid {ref.uid}, but the claim of this name has "
                f"uid {claim.metadata.uid}: it was deleted and made again; delete the pod"
            )
        if not allocation.results(claim, self._driver):
            raise PrepareError(
                f"claim {ref.namespace}/{ref.name} has no device of driver {self._driver} allocated: delete the pod, "
                "so that it is scheduled again"
            )
        return claim

    async def _prepare(self, claim: ResourceClaim) -> PreparedClaim:
        uid, digest = claim.metadata.uid, allocation.digest(claim, self._driver)
        known = self._records.claims.get(uid)
        if known and known.allocation_hash != digest:
            # Deallocated and allocated anew under the same uid.
            await self._unprepare(uid)
            known = None
        prepared = known or PreparedClaim(
            uid=uid,
            namespace=claim.metadata.namespace,
            name=claim.metadata.name,
            allocation_hash=digest,
            devices=self._devices(claim),
        )
        if known is None:
            self._records.put_claim(prepared)
        try:
            for uuid in sorted({device.uuid for device in prepared.devices if not device.admin}):
                await self._tuner.settle(uuid)
            self._cdi.write(uid, prepared.devices)
        except (HardwareError, OSError):
            if known is None:
                await self._give_up(prepared)
            raise
        # Told each time: the kubelet may have given up waiting before it was told.
        self._on_prepared(prepared)
        self._on_change()
        return prepared

    async def _give_up(self, prepared: PreparedClaim) -> None:
        self._records.drop_claim(prepared.uid)
        self._cdi.delete(prepared.uid)
        await self.settle({device.uuid for device in prepared.devices})

    async def _unprepare(self, uid: str) -> None:
        claim = self._records.claims.get(uid)
        self._cdi.delete(uid)
        if claim is None:
            return
        self._records.drop_claim(uid)
        # A GPU that cannot be set back now does not hold up the pod: what it goes back to stays on disk, and the node
        # loop tries again.
        await self.settle({device.uuid for device in claim.devices})
        self._on_change()

    def _devices(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        devices: list[PreparedDevice] = []
        configs = allocation.configs(claim, self._driver)
        for index, result in enumerate(allocation.results(claim, self._driver)):
            uuid = self._uuid(result)
            if not result.admin_access:
                self._refuse_conflict(claim, result, uuid, devices)
            devices.append(
                PreparedDevice(
                    request=result.request,
                    pool=result.pool,
                    device=result.device,
                    share_id=result.share_id,
                    uuid=uuid,
                    admin=bool(result.admin_access),
                    settings=self._settings(result, configs, uuid),
                    cdi_devices=(self._cdi.require(uuid), our_device(claim.metadata.uid, index)),
                )
            )
        return tuple(devices)

    def _uuid(self, result: AllocationResult) -> str:
        slot = names.slot_of_device(result.device)
        uuid = self._gpus.uuid_at(slot) if slot is not None and result.pool == self._node else None
        if uuid is None:
            raise settings.SettingsError(
                f"request {result.request}: device {result.pool}/{result.device} is not on node {self._node}: "
                "delete the pod, so that it is scheduled again"
            )
        return uuid

    def _settings(self, result: AllocationResult, configs: tuple[AllocationConfig, ...], uuid: str) -> DeviceSettings:
        if result.admin_access:
            # Whoever looks changes nothing.
            return DeviceSettings(request=result.request, device=result.device)
        published = self._gpus.published(uuid)
        return settings.resolve(result, configs, published.offers, published.policy)

    def _refuse_conflict(
        self, claim: ResourceClaim, result: AllocationResult, uuid: str, own: list[PreparedDevice]
    ) -> None:
        """The last line of defence against a double allocation: a GPU is held in one way."""
        mine = names.sharing_of_device(result.device)
        holders = [(other.display_name, device) for other, device in self._records.claims_on(uuid)]
        holders += [(allocation.display_name(claim), device) for device in own if device.uuid == uuid]
        for holder, device in holders:
            theirs = names.sharing_of_device(device.device)
            if mine is not theirs or mine is names.Sharing.EXCLUSIVE:
                raise settings.SettingsError(
                    f"request {result.request}: GPU {uuid} (device {result.device}) is held by claim {holder} as "
                    f"{device.device}: delete this pod, so that it is scheduled again"
                )
