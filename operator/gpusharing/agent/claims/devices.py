"""What a claim's allocation means on this node: which GPUs, set to what, and what leads containers to them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from gpusharing.agent.claims import conflicts
from gpusharing.agent.containers.cdi import CdiDirectory, is_alone
from gpusharing.agent.containers.device_metadata import MetadataFiles
from gpusharing.agent.health.unallocated import UnallocatedClaims
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.publishing.reported_gpus import recover_gpus
from gpusharing.agent.settling import targets
from gpusharing.agent.settling.mps import daemon_name
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.agent.state.records import Records
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.api import names
from gpusharing.api.dra import AllocationConfig, AllocationResult, ResourceClaim
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.api.sharing.offers import Offers
from gpusharing.core.claims import allocation, settings
from gpusharing.core.publishing.narrowing import Timing
from gpusharing.core.timestamps import seconds
from gpusharing.kube.clock import as_moment
from gpusharing.nvidia.gpu_node import GpuNode

# In seconds. What was allocated by a scheduler that had not heard yet is prepared.
_LATEST_SCHEDULER: Final = Timing().taken


class ClaimDevices:
    def __init__(
        self,
        *,
        node: str,
        driver: str,
        records: Records,
        hardware: GpuNode,
        gpus: NodeGpus,
        settler: Settler,
        walls: Walls,
        cdi: CdiDirectory,
        metadata: MetadataFiles,
        unallocated: UnallocatedClaims,
    ) -> None:
        self._node = node
        self._driver = driver
        self._records = records
        self._hardware = hardware
        self._gpus = gpus
        self._settler = settler
        self._walls = walls
        self._cdi = cdi
        self._metadata = metadata
        self._reported: Mapping[str, Sequence[DeviceSettings]] = {}
        self._unallocated = unallocated

    @property
    def gpus(self) -> set[str]:
        """All of the node, those that are lost too."""
        return set(self._gpus.uuids)

    def reserved_for(self, claim: ResourceClaim) -> set[str]:
        """The policies whose tenants alone may have the GPUs of this claim, now or as soon as what is closing on them
        has gone."""
        results = allocation.results_on(claim, self._node, self._driver)
        found = {policy for result in results if (policy := names.policy_of_pool(result.pool))}
        return found | {policy for result in results if (policy := self._gpus.reserved_for(result.pool, result.device))}

    def learn_settings(self, reported: Mapping[str, Sequence[DeviceSettings]]) -> None:
        """By claim: what the NodeSharing says of claims that were prepared."""
        self._reported = reported

    def in_force(self, uuid: str) -> tuple[Offers, PolicyReference | None]:
        """What claims on a GPU follow."""
        offered = self._gpus.published(uuid)
        return offered.offers, offered.policy

    async def learn_slots(self, slots: Mapping[str, int]) -> None:
        await self._gpus.learn_slots(slots)

    async def learn_gpus(self, reported: NodeSharingStatus) -> None:
        """Those whose records were lost."""
        await recover_gpus(self._records, self._gpus, reported)

    def is_current(self, prepared: PreparedClaim, claim: ResourceClaim) -> bool:
        """Whether it was prepared for the allocation that the claim has now."""
        return prepared.allocation_hash == self.digest(claim)

    def digest(self, claim: ResourceClaim) -> str:
        """Of what is allocated to it."""
        return allocation.digest(claim, self._driver)

    def gpus_of(self, claim: ResourceClaim) -> set[str]:
        """Those of this node that it holds."""
        held = (one for one in allocation.results(claim, self._driver) if not one.admin_access)
        slots = {names.slot_of_device(one.device) for one in held}
        return {uuid for slot in slots if slot is not None and (uuid := self._gpus.uuid_at(slot))}

    async def resolve(self, claim: ResourceClaim) -> PreparedClaim:
        """The claim as it is to be prepared. What MIG instances are known by comes once they are there. With the gates
        of its GPUs: so no other claim has come to them when this returns."""
        prepared = await self._resolve(claim)
        for result in allocation.results(claim, self._driver):
            # What the node publishes may have changed meanwhile.
            self._uuid(result)
        return prepared

    async def _resolve(self, claim: ResourceClaim) -> PreparedClaim:
        return PreparedClaim(
            uid=claim.metadata.uid,
            namespace=claim.metadata.namespace,
            name=claim.metadata.name,
            allocation_hash=self.digest(claim),
            pod_claim_name=claim.metadata.pod_claim_name,
            users=allocation.users(claim),
            devices=await self._devices(claim),
        )

    async def with_mig_details(self, claim: PreparedClaim) -> PreparedClaim:
        """With what is known of MIG instances only when they are there."""
        devices = tuple([await self._with_mig_details(device) for device in claim.devices])
        return claim if devices == claim.devices else claim.model_copy(update={"devices": devices})

    def with_current_settings(self, claim: PreparedClaim) -> PreparedClaim:
        """Claims on a shared GPU have what the GPU is set to now, not what it was set to when they came."""
        devices = tuple(self._with_current_settings(device) for device in claim.devices)
        return claim if devices == claim.devices else claim.model_copy(update={"devices": devices})

    async def _with_mig_details(self, device: PreparedDevice) -> PreparedDevice:
        place = targets.place_of(device.device)
        if place is None or not targets.waits_for_instance(device):
            return device
        instance = await self._settler.mig_instance(device.uuid, place)
        nodes = (await self._hardware.mig_device_nodes(device.uuid, instance)).now
        if is_alone(device):
            nodes += (await self._hardware.device_node(device.uuid),)
        return device.model_copy(update={"mig_uuid": instance.uuid, "device_nodes": nodes})

    def _with_current_settings(self, device: PreparedDevice) -> PreparedDevice:
        shared = names.sharing_of_device(device.device) is names.Sharing.TIME_SLICING
        if not shared or device.admin or device.uuid not in self._gpus.uuids:
            return device
        offers, policy = self.in_force(device.uuid)
        return device.model_copy(update={"settings": settings.follow(device.settings, offers, policy)})

    async def _devices(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        devices: list[PreparedDevice] = []
        configs = allocation.configs(claim, self._driver)
        gpus = [(result, self._uuid(result)) for result in allocation.results(claim, self._driver)]
        for index in range(len(gpus)):
            devices.append(await self._device(claim, index, gpus, configs, devices))
        conflicts.refuse_two_daemons(devices)
        return tuple(devices)

    async def _device(
        self,
        claim: ResourceClaim,
        index: int,
        gpus: settings.ClaimedGpus,
        configs: tuple[AllocationConfig, ...],
        before: Sequence[PreparedDevice],
    ) -> PreparedDevice:
        """`before` are the claim's devices up to this one."""
        result, uuid = gpus[index]
        if not self._gpus.is_here(uuid):
            raise settings.SettingsError(
                f"request {result.request}: GPU {uuid} (device {result.device}) was not found on node {self._node}: "
                "delete this pod, so that it is scheduled again"
            )
        if not result.admin_access:
            gpu = self._gpus.published(uuid).gpu
            conflicts.refuse_held(result, gpu, self._holders(claim, uuid), self._unallocated)
            conflicts.refuse_two_modes(result, gpu, before)
            if not self._was_prepared(claim):
                self._refuse_late(claim, result, uuid)
                conflicts.refuse_overcommitted(result, self._gpus.published(uuid), self._holders(claim, uuid), before)
        chosen = await self._settings(claim, result, configs, uuid, gpus)
        daemon = daemon_name(claim.metadata.uid, result.device) if chosen.mps else None
        is_first = all(device.request != result.request for device in before)
        return PreparedDevice(
            request=result.request,
            pool=result.pool,
            device=result.device,
            share_id=result.share_id,
            uuid=uuid,
            admin=bool(result.admin_access),
            settings=chosen,
            consumed=dict(result.consumed_capacity),
            mps_pipe=str(self._settler.mps_pipe(daemon)) if daemon else None,
            mps_shm=str(self._settler.mps_shm(daemon)) if daemon else None,
            metadata=self._metadata.mount(claim, result.request) if is_first else None,
            wall=self._walls.hook(claim.metadata.uid, index) if chosen.memory else None,
            # Specs of others may be large, and one may have to be generated.
            cdi_devices=await asyncio.to_thread(
                self._cdi.devices,
                claim.metadata.uid,
                index,
                uuid=uuid,
                # As it is now: it may be another one since GPUs were last looked for.
                minor=(await self._hardware.device_node(uuid)).minor,
                is_instance=targets.place_of(result.device) is not None and not result.admin_access,
            ),
        )

    def _was_prepared(self, claim: ResourceClaim) -> bool:
        """Before this boot, or before its record was lost: what it was promised then holds on."""
        return claim.metadata.uid in {*self._records.earlier_claims, *self._records.lost_claims}

    def _refuse_late(self, claim: ResourceClaim, result: AllocationResult, uuid: str) -> None:
        """A class of somebody else's may select devices that are closing."""
        since = self._gpus.closing_since(uuid, result.device)
        if since is None or not claim.metadata.creation_timestamp:
            return
        if seconds(claim.metadata.creation_timestamp) > seconds(as_moment(since)) + _LATEST_SCHEDULER:
            raise settings.SettingsError(
                f"request {result.request}: device {result.device} has been closing since {as_moment(since)}, and the "
                "claim is newer: use a DeviceClass that excludes closing devices, and delete the pod"
            )

    def _holders(self, claim: ResourceClaim, uuid: str) -> list[tuple[PreparedClaim, PreparedDevice]]:
        """The other claims on the GPU."""
        return [held for held in self._records.holders_of(uuid) if held[0].uid != claim.metadata.uid]

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
        self,
        claim: ResourceClaim,
        result: AllocationResult,
        configs: tuple[AllocationConfig, ...],
        uuid: str,
        gpus: settings.ClaimedGpus,
    ) -> DeviceSettings:
        if result.admin_access:
            # Admin access only looks: it changes nothing.
            return DeviceSettings(request=result.request, device=result.device)
        published = self._gpus.published(uuid)
        wall = published.memory_wall
        if published.wants_walls and names.sharing_of_device(result.device) is names.Sharing.TIME_SLICING:
            # What was published may be a minute old.
            wall = await self._walls.support(uuid)
        try:
            return settings.resolve(
                result, configs, published.offers, published.policy, gpus=gpus, allow=published.allow, memory_wall=wall
            )
        except settings.SettingsError:
            # The policy went on while the claim stayed: it keeps what it was given.
            if kept := self._kept(claim, result):
                return kept
            raise

    def _kept(self, claim: ResourceClaim, result: AllocationResult) -> DeviceSettings | None:
        """What a claim that was prepared before had for this."""
        uid = claim.metadata.uid
        earlier = self._records.earlier_claims.get(uid)
        told = [device.settings for device in earlier.devices] if earlier else []
        told += self._reported.get(uid, ()) if uid in self._records.lost_claims else ()
        return next((one for one in told if (one.request, one.device) == (result.request, result.device)), None)
