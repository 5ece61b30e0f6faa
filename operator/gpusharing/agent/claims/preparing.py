"""NodePrepareResources and NodeUnprepareResources, claim by claim. Both may be repeated and interrupted anywhere."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from gpusharing.agent.claims.budget import KUBELETS_PATIENCE, Budget, OutOfTimeError
from gpusharing.agent.claims.devices import ClaimDevices
from gpusharing.agent.claims.files import ClaimFiles
from gpusharing.agent.claims.reading import ClaimReader, ClaimRef, PrepareError
from gpusharing.agent.claims.verdicts import VerdictError, Verdicts
from gpusharing.agent.containers.cdi import UnresolvableError
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.start import Start
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.agent.walls.claim_walls import NoWallError
from gpusharing.api.dra import ResourceClaim
from gpusharing.core.claims import allocation, settings
from gpusharing.kube.transport import ApiError, UnreachableError
from gpusharing.nvidia.errors import HardwareError

REFUSALS: Final = (HardwareError, NoWallError, settings.SettingsError, UnresolvableError, VerdictError, OSError)
"""Why a claim cannot be prepared as things are."""


# The kubelet asks again later.
_RECOVERY_PATIENCE: Final = 5.0


class _Attempt(NamedTuple):
    """It goes on although the kubelet may have given up waiting."""

    digest: str
    """Of the allocation that it is for."""
    task: asyncio.Task[PreparedClaim]


class Preparer:
    def __init__(
        self,
        *,
        records: Records,
        reader: ClaimReader,
        verdicts: Verdicts,
        devices: ClaimDevices,
        settler: Settler,
        files: ClaimFiles,
        start: Start,
        on_change: Callable[[], None],
    ) -> None:
        self._records = records
        self._reader = reader
        self._verdicts = verdicts
        self._devices = devices
        self._settler = settler
        self._files = files
        self._start = start
        self._on_change = on_change
        self.is_recovered = asyncio.Event()
        """Set once it is known from the API what this node's state may have lost."""
        self.calls = 0
        """Grows with each call that begins or ends."""
        self._attempts: dict[str, _Attempt] = {}
        """By the claim's uid."""

    async def prepare(self, ref: ClaimRef, within: float = KUBELETS_PATIENCE) -> PreparedClaim:
        """In so many seconds. What is begun on the GPUs then goes on, and the kubelet's next attempt finds it."""
        budget = Budget(within)
        self.calls += 1
        try:
            await budget.spend(self._start.wait(), on="finding out which GPUs this node has")
            claim = await budget.spend(self._reader.read(ref), on="reading the claim from the API server")
            _name_in_logs(allocation.users(claim))
            if not self._may_run(claim):
                await budget.spend(self._wait_for_recovery(ref), on="reading what the API knows of this node")
                verdict = self._verdicts.wait(claim, self._devices.reserved_for(claim))
                await budget.spend(verdict, on="waiting for the operator's verdict")
            if others := self._records.lost_claims - {ref.uid}:
                raise PrepareError(
                    f"claim {ref.display_name}: it is not known yet what {len(others)} other claims of this node hold, "
                    "whose records were damaged: see condition StateTrusted of its NodeSharing"
                )
            return await budget.spend_on_task(await self._attempt(claim), on=lambda: self._in_the_way_of(claim))
        except OutOfTimeError as error:
            raise PrepareError(f"claim {ref.display_name}: {error}") from error
        except REFUSALS as error:
            # What is wrong now is to be reported.
            self._on_change()
            raise PrepareError(f"claim {ref.display_name}: {error}") from error
        except (ApiError, UnreachableError) as error:
            raise PrepareError(f"claim {ref.display_name} cannot be read: {error}") from error
        finally:
            self.calls += 1

    async def unprepare(self, ref: ClaimRef, within: float = KUBELETS_PATIENCE) -> None:
        """In so many seconds: setting GPUs back may take longer, and holds up no pod."""
        if known := self._records.all_claims.get(ref.uid):
            _name_in_logs(known.users)
        try:
            self.calls += 1
            await self.take_back(ref.uid, within=within)
        except OSError as error:
            raise PrepareError(f"claim {ref.display_name}: {error}") from error
        finally:
            self.calls += 1

    async def prepare_again(self, claim: ResourceClaim) -> PreparedClaim:
        """One that was prepared before, and whose record was lost."""
        return await asyncio.shield(await self._attempt(claim))

    def is_at_work(self, uid: str) -> bool:
        """Whether the claim is being prepared now."""
        return uid in self._attempts

    async def take_back(self, uid: str, *, within: float = KUBELETS_PATIENCE) -> None:
        if not self.is_recovered.is_set():
            self._records.end_early(uid)
        await self._end_attempt(uid)
        if gpus := await self._give_back(uid):
            try:
                await self._settler.settle_without(gpus, within=Budget(within).left)
            finally:
                self._on_change()

    async def _attempt(self, claim: ResourceClaim) -> asyncio.Task[PreparedClaim]:
        """The one that goes on for what the claim has now, or a new one."""
        uid, digest = claim.metadata.uid, self._devices.digest(claim)
        if uid in self._attempts and self._attempts[uid].digest != digest:
            await self._end_attempt(uid)
        if uid not in self._attempts:
            task = asyncio.create_task(self._prepare(claim))
            self._attempts[uid] = _Attempt(digest, task)
            task.add_done_callback(lambda ended: self._forget_attempt(uid, ended))
        return self._attempts[uid].task

    async def _end_attempt(self, uid: str) -> None:
        if attempt := self._attempts.get(uid):
            attempt.task.cancel()
            await asyncio.wait({attempt.task})

    def _forget_attempt(self, uid: str, ended: asyncio.Task[PreparedClaim]) -> None:
        del self._attempts[uid]
        if not ended.cancelled():
            # Why it failed, the next attempt finds out again if nobody waits for this one any more.
            ended.exception()

    def _in_the_way_of(self, claim: ResourceClaim) -> str:
        busy = self._settler.gates.holders(self._devices.gpus_of(claim))
        return f"waiting for its GPUs ({busy})" if busy else "setting its GPUs"

    async def _wait_for_recovery(self, ref: ClaimRef) -> None:
        try:
            async with asyncio.timeout(_RECOVERY_PATIENCE):
                await self.is_recovered.wait()
        except TimeoutError:
            raise PrepareError(
                f"claim {ref.display_name}: the agent has just started and could not read the NodeSharing and the "
                "ResourceSlices of this node yet: the kubelet tries again"
            ) from None

    def _may_run(self, claim: ResourceClaim) -> bool:
        """Whether containers of it may run. They are not disturbed, whatever anybody says."""
        uid, known = claim.metadata.uid, self._records.claims.get(claim.metadata.uid)
        is_prepared = known is not None and self._devices.is_current(known, claim)
        return is_prepared or uid in self._records.lost_claims

    async def _prepare(self, claim: ResourceClaim) -> PreparedClaim:
        uid, name = claim.metadata.uid, allocation.display_name(claim)
        async with self._files.turn(uid):
            # Whoever gives it back now comes to his end first; whoever does so later ends this attempt.
            pass
        held = self._records.all_claims.get(uid)
        if held and not self._devices.is_current(held, claim):
            # Deallocated and allocated anew under the same uid.
            await self._settler.settle_without(await self._give_back(uid))
            held = None
        gpus = self._devices.gpus_of(claim) | {device.uuid for device in (held.devices if held else ())}
        async with self._settler.gates.hold(gpus, f"claim {name} is being prepared"):
            return await self._prepare_alone(claim)

    async def _prepare_alone(self, claim: ResourceClaim) -> PreparedClaim:
        """With the gates of its GPUs."""
        uid = claim.metadata.uid
        # What was prepared before this boot is found out again: nothing is where it was.
        known = self._records.claims.get(uid)
        # Of one whose record was lost, containers may run.
        is_new = uid not in self._records.all_claims and uid not in self._records.lost_claims
        prepared = known or await self._devices.resolve(claim)
        try:
            if known is None:
                # Nothing was awaited since it was looked whether the claim may have its devices.
                self._records.put_claim(prepared)
            for uuid in sorted({device.uuid for device in prepared.devices if not device.admin}):
                await self._settler.settle(uuid)
            completed = await self._devices.with_mig_details(prepared)
            if completed != prepared:
                self._records.put_claim(completed)
            async with self._files.turn(uid):
                await self._files.write(completed)
        except (HardwareError, NoWallError, UnresolvableError, OSError):
            if is_new:
                await self._give_up(prepared)
            raise
        self._on_change()
        return completed

    async def _give_up(self, prepared: PreparedClaim) -> None:
        async with self._files.turn(prepared.uid):
            await self._files.delete(prepared.uid)
            self._records.drop_claim(prepared.uid)
        await self._settler.settle_all({device.uuid for device in prepared.devices})

    async def _give_back(self, uid: str) -> set[str]:
        """The GPUs that are to be set anew without the claim."""
        async with self._files.turn(uid):
            claim = self._records.all_claims.get(uid)
            was_lost = uid in self._records.lost_claims
            await self._files.delete(uid)
            # Also of a claim that is not known: its record may be on disk although the write has failed.
            self._records.drop_claim(uid)
        if claim is None:
            return self._devices.gpus if was_lost else set()
        return {device.uuid for device in claim.devices}


def _name_in_logs(users: tuple[str, ...]) -> None:
    """The kubelet does not tell whose claim it is; the claim does."""
    structlog.contextvars.bind_contextvars(pods=users)
