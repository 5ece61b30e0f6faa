"""NodePrepareResources and NodeUnprepareResources, claim by claim. Both may be repeated and interrupted anywhere."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from gpusharing.agent import conflicts
from gpusharing.agent.cdi import CdiDirectory, UnresolvableError, is_alone
from gpusharing.agent.device_metadata import MetadataFiles
from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.errors import HardwareError
from gpusharing.agent.hardware.protocol import GpuNode
from gpusharing.agent.records import PreparedClaim, PreparedDevice, Records
from gpusharing.agent.settling import targets
from gpusharing.agent.settling.mps import daemon_name
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.verdicts import VerdictError, Verdicts
from gpusharing.agent.walls.walls import NoWallError, Walls
from gpusharing.api import names
from gpusharing.api.dra import AllocationConfig, AllocationResult, ResourceClaim
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.core.claims import allocation, settings
from gpusharing.core.publishing.devices import attributes_of
from gpusharing.core.publishing.narrowing import Holder
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import Api, ApiError, UnreachableError

log = structlog.get_logger(__name__)


class PrepareError(Exception):
    """This claim cannot be prepared. The message reaches the pod's events."""


_REFUSALS: Final = (HardwareError, NoWallError, settings.SettingsError, UnresolvableError, VerdictError, OSError)


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as the kubelet names it."""

    uid: str
    namespace: str
    name: str

    @property
    def display_name(self) -> str:
        return f"{self.namespace}/{self.name}"


class Preparer:
    def __init__(
        self,
        *,
        node: str,
        driver: str,
        api: Api,
        records: Records,
        hardware: GpuNode,
        gpus: NodeGpus,
        settler: Settler,
        walls: Walls,
        cdi: CdiDirectory,
        metadata: MetadataFiles,
        verdicts: Verdicts,
        on_prepared: Callable[[PreparedClaim], None],
        on_change: Callable[[], None],
    ) -> None:
        self._node = node
        self._driver = driver
        self._api = api
        self._records = records
        self._hardware = hardware
        self._gpus = gpus
        self._settler = settler
        self._walls = walls
        self._cdi = cdi
        self._metadata = metadata
        self._verdicts = verdicts
        self._on_prepared = on_prepared
        self._on_change = on_change
        self._is_behind = False
        # Claims, offers and settings of the node change one at a time.
        self.gate = asyncio.Lock()

    async def prepare(self, ref: ClaimRef) -> PreparedClaim:
        try:
            claim = await self._claim(ref)
            _named_in_logs(allocation.users(claim))
            if not self._is_known(claim):
                # Without the gate, so that others do not wait as well.
                await self._verdicts.wait(claim)
            async with self.gate:
                if others := self._records.lost_claims - {ref.uid}:
                    raise PrepareError(
                        f"claim {ref.namespace}/{ref.name}: it is not known yet what {len(others)} other claims of "
                        "this node hold, whose records were damaged: see condition StateTrusted of its NodeSharing"
                    )
                return await self._prepare(claim)
        except _REFUSALS as error:
            # What is wrong now is to be reported.
            self._on_change()
            raise PrepareError(f"claim {ref.namespace}/{ref.name}: {error}") from error
        except (ApiError, UnreachableError) as error:
            raise PrepareError(f"claim {ref.namespace}/{ref.name} cannot be read: {error}") from error

    async def unprepare(self, ref: ClaimRef) -> None:
        if known := self._records.claims.get(ref.uid):
            _named_in_logs(known.users)
        try:
            async with self.gate:
                await self._unprepare(ref.uid)
        except OSError as error:
            raise PrepareError(f"claim {ref.namespace}/{ref.name}: {error}") from error

    async def recover(self) -> None:
        """After a start: walls, CDI specs and GPU settings follow from the claims on disk, whatever was half done."""
        async with self.gate:
            try:
                self._renew()
                await self._settler.settle_all({*self._records.changed_gpus, *self._gpus.uuids})
            except OSError as error:
                # Pods that end need no disk. The node loop says it again until it has worked.
                self._is_behind = True
                log.warning("what claims need is not written anew", error=str(error))

    def _renew(self) -> None:
        for uid in {*self._cdi.claims(), *self._metadata.claims()} - self._records.claims.keys():
            if uid not in self._records.lost_claims:
                self._forget(uid)
        self._walls.renew()
        self._follow()
        for claim in self._records.claims.values():
            self._renew_spec(claim)

    async def readopt(self, told: Mapping[str, str]) -> None:
        """Finds out again what claims hold whose records were lost. `told` are namespace/name by uid, as this node or
        the operator has once told them: a claim that neither has, was never used."""
        for uid in sorted(self._records.lost_claims):
            claim = await self._still_there(uid, told.get(uid))
            async with self.gate:
                if claim is None:
                    await self._unprepare(uid)
                    continue
                try:
                    await self._prepare(claim)
                except _REFUSALS as error:
                    log.warning("claim is not known again", claim=told[uid], error=str(error))

    async def _still_there(self, uid: str, told: str | None) -> ResourceClaim | None:
        if told is None:
            return None
        namespace, _, name = told.partition("/")
        try:
            return await self._claim(ClaimRef(uid, namespace, name))
        except PrepareError:
            # Another one of this name, or it has given back its devices.
            return None
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def follow(self) -> None:
        """What claims have of their GPUs is what is in force now."""
        if self._is_behind:
            self._renew()
            self._is_behind = False
        self._follow()

    def _follow(self) -> None:
        """Claims on a shared GPU have what the GPU is set to now, not what it was set to when they came."""
        for claim in list(self._records.claims.values()):
            devices = tuple(self._followed(device) for device in claim.devices)
            if devices != claim.devices:
                followed = claim.model_copy(update={"devices": devices})
                # The record comes last: until then it is done again.
                self._renew_spec(followed)
                self._records.put_claim(followed)
                self._on_prepared(followed)

    def _renew_spec(self, claim: PreparedClaim) -> None:
        try:
            self._lead_to(claim)
        except UnresolvableError as error:
            # No container of it starts before NVIDIA's specs are there again.
            log.warning("CDI spec is missing", claim=claim.display_name, error=str(error))

    def _lead_to(self, claim: PreparedClaim) -> None:
        """Writes its CDI spec, after all that containers find by it."""
        # A GPU that is not there is described as it was.
        if all(device.uuid in self._gpus.uuids for device in claim.devices) or not self._metadata.has(claim.uid):
            self._metadata.write(claim, [self._attributes(device) for device in claim.devices])
        self._cdi.write(claim.uid, claim.devices)

    def _attributes(self, device: PreparedDevice) -> dict[str, Any]:
        if device.uuid not in self._gpus.uuids:
            return {}
        attributes = attributes_of(self._gpus.published(device.uuid), device.device)
        return attributes | ({"uuid": {"string": device.mig_uuid}} if device.mig_uuid else {})

    def _forget(self, uid: str) -> None:
        """What is there for its containers."""
        self._cdi.delete(uid)
        self._metadata.delete(uid)

    def _followed(self, device: PreparedDevice) -> PreparedDevice:
        shared = names.sharing_of_device(device.device) is names.Sharing.TIME_SLICING
        if not shared or device.admin or device.uuid not in self._gpus.uuids:
            return device
        offered = self._gpus.published(device.uuid)
        return device.model_copy(update={"settings": settings.follow(device.settings, offered.offers, offered.policy)})

    async def still_holds(self, holder: Holder) -> bool:
        """Whether the API says that a prepared claim has this very device."""
        prepared = self._records.claims.get(holder.claim)
        if prepared is None:
            return False
        try:
            claim = await self._api.get(RESOURCE_CLAIMS, prepared.name, prepared.namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        # The same device of another pool is another device.
        held = {
            (device.pool, device.device, device.share_id)
            for device in prepared.devices
            if (device.device, device.share_id) == (holder.device, holder.share_id)
        }
        return claim.metadata.uid == holder.claim and any(
            (result.pool, result.device, result.share_id) in held for result in allocation.results(claim, self._driver)
        )

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

    def _is_known(self, claim: ResourceClaim) -> bool:
        """Whether containers of it may run. They are not disturbed, whatever anybody says."""
        uid, known = claim.metadata.uid, self._records.claims.get(claim.metadata.uid)
        is_prepared = known is not None and known.allocation_hash == allocation.digest(claim, self._driver)
        return is_prepared or uid in self._records.lost_claims

    async def _prepare(self, claim: ResourceClaim) -> PreparedClaim:
        uid, digest = claim.metadata.uid, allocation.digest(claim, self._driver)
        known = self._records.claims.get(uid)
        # Of one whose record was lost, containers may run.
        is_new = known is None and uid not in self._records.lost_claims
        if known and known.allocation_hash != digest:
            # Deallocated and allocated anew under the same uid.
            await self._unprepare(uid)
            known, is_new = None, True
        prepared = known or PreparedClaim(
            uid=uid,
            namespace=claim.metadata.namespace,
            name=claim.metadata.name,
            allocation_hash=digest,
            pod_claim_name=claim.metadata.pod_claim_name,
            users=allocation.users(claim),
            devices=await self._devices(claim),
        )
        try:
            if known is None:
                self._records.put_claim(prepared)
            for uuid in sorted({device.uuid for device in prepared.devices if not device.admin}):
                await self._settler.settle(uuid)
            prepared = await self._completed(prepared)
            # What a spec leads to is there before it.
            self._walls.build(prepared)
            self._lead_to(prepared)
        except (HardwareError, NoWallError, UnresolvableError, OSError):
            if is_new:
                await self._give_up(prepared)
            raise
        # Told each time: the kubelet may have given up waiting before it was told.
        self._on_prepared(prepared)
        self._on_change()
        return prepared

    async def _completed(self, claim: PreparedClaim) -> PreparedClaim:
        """With what is known of MIG instances only when they are there."""
        devices = tuple([await self._entered(device) for device in claim.devices])
        if devices == claim.devices:
            return claim
        completed = claim.model_copy(update={"devices": devices})
        self._records.put_claim(completed)
        return completed

    async def _entered(self, device: PreparedDevice) -> PreparedDevice:
        place = targets.place_of(device.device)
        if place is None or device.admin or device.mig_uuid is not None:
            return device
        instance = await self._settler.mig_instance(device.uuid, place)
        nodes = (await self._hardware.mig_device_nodes(device.uuid, instance)).now
        if is_alone(device):
            nodes += (await self._hardware.device_node(device.uuid),)
        return device.model_copy(update={"mig_uuid": instance.uuid, "device_nodes": nodes})

    async def _give_up(self, prepared: PreparedClaim) -> None:
        self._records.drop_claim(prepared.uid)
        self._forget(prepared.uid)
        self._walls.delete(prepared.uid)
        await self._settler.settle_all({device.uuid for device in prepared.devices})

    async def _unprepare(self, uid: str) -> None:
        claim = self._records.claims.get(uid)
        was_lost = uid in self._records.lost_claims
        self._forget(uid)
        self._walls.delete(uid)
        # Also of a claim that is not known: its record may be on disk although the write has failed.
        self._records.drop_claim(uid)
        if claim is None and not was_lost:
            return
        # A GPU that cannot be set back now does not hold up the pod: what it goes back to stays on disk, and the node
        # loop tries again.
        await self._settler.settle_all({device.uuid for device in claim.devices} if claim else set(self._gpus.uuids))
        self._on_change()

    async def _devices(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        devices: list[PreparedDevice] = []
        configs = allocation.configs(claim, self._driver)
        for index, result in enumerate(allocation.results(claim, self._driver)):
            uuid = self._uuid(result)
            gpu = self._gpus.published(uuid).gpu
            if not result.admin_access:
                conflicts.refuse_held(claim, result, gpu, self._records.claims_on(uuid), devices)
            chosen = await self._settings(result, configs, uuid)
            daemon = daemon_name(claim.metadata.uid, result.device) if chosen.mps else None
            is_first = all(device.request != result.request for device in devices)
            shm = self._settler.mps_shm(daemon) if daemon else None
            devices.append(
                PreparedDevice(
                    request=result.request,
                    pool=result.pool,
                    device=result.device,
                    share_id=result.share_id,
                    uuid=uuid,
                    admin=bool(result.admin_access),
                    settings=chosen,
                    mps_pipe=str(self._settler.mps_pipe(daemon)) if daemon else None,
                    mps_shm=str(shm) if shm else None,
                    metadata=self._metadata.mount(claim, result.request) if is_first else None,
                    wall=self._walls.hook(claim.metadata.uid, index) if chosen.memory else None,
                    cdi_devices=self._cdi.devices(
                        claim.metadata.uid,
                        index,
                        uuid=uuid,
                        minor=gpu.minor,
                        is_instance=targets.place_of(result.device) is not None and not result.admin_access,
                    ),
                )
            )
        conflicts.refuse_two_daemons(devices)
        return tuple(devices)

    def _uuid(self, result: AllocationResult) -> str:
        slot = names.slot_of_device(result.device)
        is_here = names.node_of_pool(result.pool) == self._node
        uuid = self._gpus.uuid_at(slot) if slot is not None and is_here else None
        if uuid is None:
            raise settings.SettingsError(
                f"request {result.request}: device {result.pool}/{result.device} is not on node {self._node}: "
                "delete the pod, so that it is scheduled again"
            )
        if result.pool != self._gpus.pool(uuid):
            raise settings.SettingsError(
                f"request {result.request}: device {result.pool}/{result.device} is not there any more, its GPU "
                f"belongs to pool {self._gpus.pool(uuid)} now: delete the pod, so that it is scheduled again"
            )
        return uuid

    async def _settings(
        self, result: AllocationResult, configs: tuple[AllocationConfig, ...], uuid: str
    ) -> DeviceSettings:
        if result.admin_access:
            # Whoever looks changes nothing.
            return DeviceSettings(request=result.request, device=result.device)
        published = self._gpus.published(uuid)
        wall = published.memory_wall
        if published.wants_walls and names.sharing_of_device(result.device) is names.Sharing.TIME_SLICING:
            # What was published may be a minute old.
            wall = await self._walls.support(uuid)
        return settings.resolve(
            result, configs, published.offers, published.policy, allow=published.allow, memory_wall=wall
        )


def _named_in_logs(users: tuple[str, ...]) -> None:
    """The kubelet does not tell whose claim it is; the claim does."""
    structlog.contextvars.bind_contextvars(pods=users)
