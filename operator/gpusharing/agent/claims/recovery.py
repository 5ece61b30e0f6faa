"""Prepared claims after a start, and while policies change: renewed, followed, and found again."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple

import structlog

from gpusharing.agent.claims import containers
from gpusharing.agent.claims.devices import ClaimDevices
from gpusharing.agent.claims.files import ClaimFiles
from gpusharing.agent.claims.forgotten import ForgottenClaims
from gpusharing.agent.claims.preparing import REFUSALS, Preparer
from gpusharing.agent.claims.reading import ClaimReader, ClaimRef
from gpusharing.agent.settling import targets
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import Steps
from gpusharing.api import names
from gpusharing.api.dra import ResourceClaim, ResourceSlice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import Offers
from gpusharing.core.claims import allocation
from gpusharing.core.publishing.narrowing import Holder

log = structlog.get_logger(__name__)


_FOLLOW: Final = "follow policies"
_FINISH: Final = "finish claims"


class _OnGpu(NamedTuple):
    offers: tuple[Offers, PolicyReference | None]
    claims: Mapping[str, PreparedClaim]


class ClaimRecovery:
    def __init__(
        self,
        *,
        records: Records,
        reader: ClaimReader,
        devices: ClaimDevices,
        files: ClaimFiles,
        settler: Settler,
        preparer: Preparer,
        steps: Steps,
    ) -> None:
        self._records = records
        self._reader = reader
        self._devices = devices
        self._files = files
        self._settler = settler
        self._preparer = preparer
        self._steps = steps
        self._followed: Mapping[str, _OnGpu] = {}
        """By the GPU's uuid: what its claims have followed, and which these were."""
        self._forgotten = ForgottenClaims(records=records, reader=reader, files=files, preparer=preparer)

    async def renew(self) -> None:
        """After a start: walls and CDI specs follow from the claims on disk, whatever was half done."""
        # Written by a predecessor of this boot: containers may run. Others are void.
        self._records.lose_claims(await asyncio.to_thread(self._files.claims_of, self._records.boot))
        # Pods that end need no disk.
        with self._steps.step("renew claim files"):
            await self._renew()

    def settle(self) -> asyncio.Future[None]:
        """Then the settings of the GPUs. For one that is still being set, others wait from now on."""
        # Where the state was lost, what seems to be free may be in use: nothing is set before the API was read.
        gpus = set() if self._records.is_empty else {*self._records.changed_gpus, *self._devices.gpus}
        return self._settler.recover(gpus)

    async def follow(self) -> None:
        """Gives claims the settings of their GPUs that are in force now, and what could not be written before."""
        if self._steps.has_failed("renew claim files"):
            with self._steps.step("renew claim files"):
                await self._renew()
        await self._follow()

    async def finish(self) -> None:
        """Completes claims that have a record, and of which something else could not be done then. The kubelet may
        believe that they are prepared, and not ask again."""
        begun = {
            claim.display_name: claim
            for claim in self._files.unwritten(self._records.claims.values())
            if not self._preparer.is_at_work(claim.uid) and self._has_instances(claim)
        }
        if not all(self._files.has_walls(claim) for claim in begun.values()):
            self._files.renew_walls()
        await self._steps.for_each(_FINISH, begun, self._finish, kind="claim")

    async def restore(self) -> list[str]:
        """Writes again what others have removed of what containers find. Returns whose."""
        lost = self._files.incomplete(self._records.claims.values())
        if lost:
            self._files.renew_walls()
        errors: list[OSError] = []
        for claim in lost:
            try:
                await self._renew_files(claim)
            except OSError as error:
                errors.append(error)
        if errors:
            # The others have theirs.
            raise errors[0]
        return [f"claim {claim.display_name}" for claim in lost]

    @property
    def has_learned(self) -> bool:
        return self._preparer.is_recovered.is_set()

    async def learn(
        self,
        sharing: NodeSharing,
        slices: Iterable[ResourceSlice],
        *,
        take_survey: Callable[[], Awaitable[None]],
    ) -> None:
        """What the API knows of this node and its state may have lost, once after each start: before that nothing is
        deleted, no new GPU gets a slot, and nothing new is prepared."""
        await self._devices.learn_slots(_slots(slices) | _slots_of(sharing) | self._files.slots())
        if self._records.is_empty and sharing.status.gpus:
            self._records.lost_state = True
            log.warning("state lost", gpus=len(sharing.status.gpus), claims=len(sharing.status.claims))
            if sharing.status.boot_id == self._records.boot.id:
                self._records.lose_claims(claim.uid for claim in sharing.status.claims)
        # GPUs that were waiting for a slot: whoever waits for the recovery finds them.
        await take_survey()
        await self._devices.learn_gpus(sharing.status)
        self._records.forget_ended()
        self._preparer.is_recovered.set()

    async def reconcile(self, sharing: NodeSharing) -> None:
        """With what the API says now: claims whose records were lost are found again, forgotten ones given back."""
        if self._records.lost_claims:
            await self.readopt(sharing)
        await self._forgotten.give_back(sharing)

    async def readopt(self, sharing: NodeSharing) -> None:
        """Finds out again what claims hold whose records were lost. Their names are known from their files, from this
        node's last report, or from the operator."""
        told = {claim.uid: claim.claim for claim in sharing.spec.claims}
        told |= {claim.uid: claim.claim for claim in sharing.status.claims}
        reported = {claim.uid: claim.settings for claim in sharing.spec.claims}
        self._devices.learn_settings(reported | {claim.uid: claim.settings for claim in sharing.status.claims})
        for uid in sorted(self._records.lost_claims):
            ref = self._files.reference(uid) or (_reference(uid, told[uid]) if uid in told else None)
            if ref is None and not sharing.spec.gpus:
                # The operator names every claim of this node, once it has spoken.
                log.warning("claim could not be recovered", claim_uid=uid, error="its name is not known yet")
                continue
            claim = await self._reader.find(ref) if ref else None
            if claim is not None:
                await self._recover_claim(claim)
            elif not await asyncio.to_thread(containers.run_with, uid):
                await self._preparer.take_back(uid)

    async def _recover_claim(self, claim: ResourceClaim) -> None:
        try:
            await self._preparer.prepare_again(claim)
        except REFUSALS as error:
            log.warning("claim could not be recovered", claim=allocation.display_name(claim), error=str(error))

    async def still_holds(self, holder: Holder) -> bool:
        """Whether the API says that a prepared claim has this very device."""
        prepared = self._records.all_claims.get(holder.claim)
        return prepared is not None and await self._reader.holds(prepared, holder)

    async def _renew(self) -> None:
        for uid in self._files.claims() - self._records.claims.keys() - self._records.lost_claims:
            async with self._files.turn(uid):
                await self._files.delete_spec(uid)
        self._files.renew_walls()
        await self._follow()
        claims = {claim.display_name: claim for claim in self._records.claims.values()}
        await self._steps.for_each("renew claim files", claims, self._renew_files, kind="claim")

    async def _renew_files(self, claim: PreparedClaim) -> None:
        async with self._files.turn(claim.uid):
            if self._records.claims.get(claim.uid) == claim:
                await self._files.renew(claim)

    async def _follow(self) -> None:
        """A claim is compared again when it or the offers of its GPUs have changed since."""
        now = {uuid: self._on_gpu(uuid) for uuid in self._devices.gpus}
        changed = {claim.uid: claim for uuid, on_gpu in now.items() for claim in self._changed(uuid, on_gpu)}
        behind = {
            claim.display_name: claim
            for claim in changed.values()
            if self._devices.with_current_settings(claim) != claim
        }
        await self._steps.for_each(_FOLLOW, behind, self._follow_with, kind="claim")
        if not self._steps.has_failed(_FOLLOW):
            self._followed = now

    def _has_instances(self, claim: PreparedClaim) -> bool:
        """Whether the MIG instances are there that it does not know yet."""
        waiting = (device.uuid for device in claim.devices if targets.waits_for_instance(device))
        return all(self._settler.is_settled(uuid) for uuid in waiting)

    async def _finish(self, claim: PreparedClaim) -> None:
        async with self._files.turn(claim.uid):
            if self._records.claims.get(claim.uid) != claim:
                return
            completed = await self._devices.with_mig_details(claim)
            if completed != claim:
                self._records.put_claim(completed)
            await self._files.renew(completed)

    def _on_gpu(self, uuid: str) -> _OnGpu:
        return _OnGpu(self._devices.in_force(uuid), {claim.uid: claim for claim, _ in self._records.claims_on(uuid)})

    def _changed(self, uuid: str, now: _OnGpu) -> list[PreparedClaim]:
        before = self._followed.get(uuid)
        if before is None or before.offers != now.offers:
            return list(now.claims.values())
        # There may be hundreds, and most are the very objects of the last time.
        return [claim for uid, claim in now.claims.items() if before.claims.get(uid) is not claim]

    async def _follow_with(self, claim: PreparedClaim) -> None:
        async with self._files.turn(claim.uid):
            if self._records.claims.get(claim.uid) == claim:
                followed = self._devices.with_current_settings(claim)
                # The record comes last: until then it is done again.
                await self._files.renew(followed)
                self._records.put_claim(followed)


def _reference(uid: str, claim: str) -> ClaimRef:
    namespace, _, name = claim.partition("/")
    return ClaimRef(uid, namespace, name)


def _slots_of(sharing: NodeSharing) -> dict[str, int]:
    return {gpu.uuid: gpu.slot for gpu in sharing.status.gpus}


def _slots(slices: Iterable[ResourceSlice]) -> dict[str, int]:
    found: dict[str, int] = {}
    for slice_ in slices:
        for device in slice_.spec.get("devices") or ():
            slot = names.slot_of_device(device["name"])
            uuid = device.get("attributes", {}).get("uuid", {}).get("string", "")
            # A MIG device has a uuid of its own.
            if slot is not None and names.sharing_of_device(device["name"]) is not names.Sharing.MIG and uuid:
                found[uuid] = slot
    return found
