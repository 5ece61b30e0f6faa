"""The GPUs of this node: what they are, what was decided for them, and what is published of them."""

import asyncio
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from gpusharing.agent.state.models import GpuRecord, SeenGpu
from gpusharing.agent.state.records import Records
from gpusharing.api import names
from gpusharing.api.sharing.gpu_status import NOT_REPORTED, MemoryWallSupport, MigMode
from gpusharing.api.sharing.node_spec import GpuSharing, PolicyReference
from gpusharing.api.sharing.offers import Offers
from gpusharing.core.devices.gpu import Board, Gpu, MigInstance
from gpusharing.core.devices.offered import AS_FOUND, OfferedGpu
from gpusharing.core.publishing import mig_at_rest
from gpusharing.core.publishing.abilities import as_decided, menu_group
from gpusharing.core.publishing.devices import remembered
from gpusharing.core.publishing.entries import Entry
from gpusharing.core.publishing.menu import menu
from gpusharing.core.publishing.mig_at_rest import Cut
from gpusharing.core.publishing.narrowing import Answers, GpuPlan, GpuView, Holder, Publication, Timing, narrow, written
from gpusharing.kube.clock import as_precise_moment
from gpusharing.nvidia.facts import GpuState

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """A GPU as it was last looked at."""

    state: GpuState
    gpu: Gpu
    mig_enabled: bool
    """Not by us for claims, which is undone after them."""
    instances: tuple[MigInstance, ...]
    """Not those that we have made."""
    ours: tuple[MigInstance, ...]
    memory_wall: MemoryWallSupport
    mig_mode: MigMode | None = None


class Shown(NamedTuple):
    """A device in the API."""

    pool: str
    device: str


class NodeGpus:
    def __init__(
        self,
        records: Records,
        *,
        node: str,
        menus: int = 1,
        timing: Timing | None = None,
        waits_for_slots: bool = False,
    ) -> None:
        """`waits_for_slots`: a GPU without a record is left out until `learn_slots` has said what the API knows."""
        self._waits_for_slots = waits_for_slots
        self._records = records
        self._node = node
        self._menus = menus
        self._timing = timing or Timing()
        self._seen: Mapping[str, Seen] = {}
        self._found: frozenset[str] = frozenset()
        self.minors: Mapping[str, int] = {}
        """Of all that were found, those without a slot too."""

    @property
    def patience(self) -> float:
        """So many seconds nothing is written because of a claim that may leave again soon."""
        return self._timing.patience

    def found(
        self,
        states: Iterable[GpuState],
        memory_walls: Mapping[str, MemoryWallSupport],
        *,
        busy: Collection[str] = (),
    ) -> None:
        """Those that were there and are not found any more stay as they were: claims may hold them. So do those that
        are `busy`, which were looked at while they were being changed."""
        states = list(states)
        self.minors = {state.board.uuid: state.board.minor for state in states}
        ordered = sorted(
            (state for state in states if self._may_have_slot(state.board.uuid)), key=lambda state: state.board.minor
        )
        found = {
            state.board.uuid: self._seen[state.board.uuid]
            if state.board.uuid in busy and state.board.uuid in self._seen
            else self._as_seen(state, memory_walls[state.board.uuid])
            for state in ordered
        }
        for seen in found.values():
            self._records.put_seen(
                SeenGpu(board=seen.state.board, mig_enabled=seen.mig_enabled, instances=seen.instances)
            )
        missed = {
            uuid: gpu
            for uuid, gpu in self._records.missed_gpus.items()
            if uuid not in found and self._may_have_slot(uuid)
        }
        self._seen = found | {uuid: self._seen.get(uuid) or self._as_last_seen(gpu) for uuid, gpu in missed.items()}
        self._found = frozenset(found)

    def _may_have_slot(self, uuid: str) -> bool:
        """Whether nobody else may know it by another one."""
        return not self._waits_for_slots or self._records.has_slot(uuid)

    async def remember(self) -> None:
        """On the disk what was found and told, as far as that is possible."""
        await self._records.flush()

    @property
    def uuids(self) -> list[str]:
        return sorted(self._seen, key=lambda uuid: self._records.gpu(uuid).slot)

    async def learn_slots(self, slots: Mapping[str, int]) -> None:
        """Those by which others know the GPUs of this node. New ones get theirs when they are found the next time."""
        await self._records.give_slots(slots)
        self._waits_for_slots = False

    def is_here(self, uuid: str) -> bool:
        """Whether it was found when GPUs were last looked for."""
        return uuid in self._found

    def uuid_at(self, slot: int) -> str | None:
        return next((uuid for uuid in self._seen if self._records.gpu(uuid).slot == slot), None)

    def instances(self, uuid: str) -> tuple[MigInstance, ...]:
        """All, whoever made them."""
        found = self._seen[uuid].state.instances
        return tuple(MigInstance(place=instance.place, uuid=instance.uuid) for instance in found)

    def mig_mode(self, uuid: str) -> MigMode | None:
        """As it was when the GPU was last looked at, and before we switched it. None: there is none."""
        return self._seen[uuid].mig_mode

    def published(self, uuid: str) -> OfferedGpu:
        """As its devices are described, also those that are on their way out."""
        record = self._records.gpu(uuid)
        offered = self._offered(
            uuid, record.published_offers, record.published_policy, configured=record.published_configured
        )
        return self._with_ours(
            dataclasses.replace(
                offered,
                allow=record.published_allow,
                restricted=names.policy_of_pool(self.pool(uuid)) is not None,
                evicts=record.decided is not None and record.decided.drain is not None,
            )
        )

    def pool(self, uuid: str) -> str:
        """Where its devices are published."""
        publication = self._records.gpu(uuid).publication
        return publication.pool if publication else names.pool(self._node)

    def entries(self, uuid: str) -> tuple[Entry, ...]:
        publication = self._records.gpu(uuid).publication
        return publication.entries if publication else ()

    def reserved_for(self, pool: str, device: str) -> str | None:
        """The policy for whose tenants the operator has reserved the GPU of this device, while it is still here."""
        slot = names.slot_of_device(device)
        uuid = self.uuid_at(slot) if slot is not None else None
        if uuid is None or self.pool(uuid) != pool:
            return None
        decided = self._records.gpu(uuid).decided
        return decided.restricted_to if decided else None

    def closing_since(self, uuid: str, device: str) -> float | None:
        """In seconds since boot; None: it is not closing, or nobody knows it yet."""
        return next((entry.closing_since for entry in self.entries(uuid) if entry.device == device), None)

    def told(self, decisions: Iterable[GpuSharing]) -> None:
        """Keeps the operator's last word: it holds when operator and API server are away."""
        for decision in decisions:
            if decision.uuid in self._seen:
                record = self._records.gpu(decision.uuid)
                self._records.keep_gpu(decision.uuid, record.model_copy(update={"decided": decision}))

    def at_rest(self, uuid: str) -> Cut:
        """How the GPU is to be cut beside what its claims hold."""
        if uuid not in self._seen:
            # Nobody knows what it is: what we have made stays until it is seen again.
            return Cut(places=frozenset(made.place for made in self._records.journal(uuid).instances))
        record = self._records.gpu(uuid)
        allocated = record.decided.allocated if record.decided else ()
        held = {device.device for device in allocated} | {holder.device for holder in self._holders(uuid)}
        published = {entry.device for entry in self.entries(uuid)}
        return mig_at_rest.at_rest(
            self._without_ours(uuid), held=held, published=published, found_enabled=record.mig_mode_found
        )

    def plan(self, uuids: Sequence[str], *, shown: Iterable[Shown], now: float, answers: Answers) -> dict[str, GpuPlan]:
        """What each of these GPUs is to publish. `shown` are the devices that the API has."""
        devices = list(shown)
        views = [self._view(uuid, devices) for uuid in uuids]
        plans = narrow(views, now=now, menus=self._menus, timing=self._timing, answers=answers)
        return dict(zip(uuids, plans, strict=True))

    async def put_in_force(self, plans: Mapping[str, GpuPlan]) -> bool:
        """On disk before anybody sees it; whoever prepares a claim meanwhile goes by it already. A GPU whose record
        cannot be written stays published as it was. Whether all are in force."""
        # Each is in memory before the first is awaited: the plans go together.
        writes = [self._records.put_gpu(uuid, self._in_force(uuid, plan)) for uuid, plan in plans.items()]
        results = await asyncio.gather(*writes, return_exceptions=True)
        for result in results:
            # The records keep in mind why one cannot be written.
            if isinstance(result, BaseException) and not isinstance(result, OSError):
                raise result
        return not any(results)

    def _in_force(self, uuid: str, plan: GpuPlan) -> GpuRecord:
        if plan.ignored:
            log.warning("devices of other GPUs ignored", uuid=uuid, devices=plan.ignored)
        record = self._records.gpu(uuid)
        put: dict[str, object] = {"publication": plan.publication}
        wanted = self.wanted(uuid)
        entries = plan.publication.entries
        is_leaving = wanted.configured and plan.publication.pool != self._pool_of(record.decided)
        # What has to go before the GPU appears in another pool is described as it was, if anybody knows.
        if record.publication is None or not is_leaving:
            put |= {
                "published_offers": remembered(wanted.offers, record.published_offers, entries),
                "published_policy": wanted.policy or _last_policy(record, entries),
                "published_allow": wanted.allow,
                "published_configured": wanted.configured,
            }
        return record.model_copy(update=put)

    def written(self, stored: Mapping[str, Publication], *, now: float) -> bool:
        """Whether anything begins to wait now that the API has this."""
        changed = False
        for uuid, publication in stored.items():
            record = self._records.gpu(uuid)
            if record.publication is None:
                continue
            waiting = written(publication, record.publication, now=now)
            changed = changed or waiting != record.publication
            # A wait that is forgotten begins anew.
            self._records.keep_gpu(uuid, record.model_copy(update={"publication": waiting}))
        return changed

    def publications(self) -> dict[str, Publication]:
        found = {uuid: self._records.gpu(uuid).publication for uuid in self._seen}
        return {uuid: publication for uuid, publication in found.items() if publication}

    def _view(self, uuid: str, shown: Iterable[Shown]) -> GpuView:
        wanted = self.wanted(uuid)
        record = self._records.gpu(uuid)
        decided = record.decided or GpuSharing(uuid=uuid)
        policy = wanted.policy.name if wanted.policy else None
        found = {one.device: one.pool for one in shown if names.slot_of_device(one.device) == record.slot}
        held_in = [device.pool for _, device in self._records.holders_of(uuid)]
        return GpuView(
            gpu=wanted.gpu,
            group=menu_group(wanted),
            menu=menu(wanted),
            policy=policy,
            pool=self._pool_of(record.decided),
            configured=wanted.configured,
            published=record.publication,
            found=frozenset(found),
            found_in=next(iter((*found.values(), *held_in)), None),
            prepared=tuple(self._holders(uuid)),
            allocated=frozenset(device.device for device in decided.allocated),
            close_approved=self._approved(uuid, decided),
            closed_names=decided.closed_names,
        )

    def _approved(self, uuid: str, decided: GpuSharing) -> frozenset[str]:
        """Devices that may be withdrawn. What closes again needs an approval again."""
        since = {entry.device: entry.closing_since for entry in self.entries(uuid) if entry.closing_since is not None}
        return frozenset(
            device
            for device, approved in zip(decided.close_approved, decided.close_approved_since, strict=False)
            if device in since and as_precise_moment(since[device]) == approved
        )

    def _pool_of(self, decided: GpuSharing | None) -> str:
        return names.pool(self._node, restricted_to=decided.restricted_to if decided else None)

    def _holders(self, uuid: str) -> Iterable[Holder]:
        for claim, device in self._records.holders_of(uuid):
            yield Holder(claim.uid, device.device, device.share_id)

    def wanted(self, uuid: str) -> OfferedGpu:
        """As it is to be offered."""
        return self._with_ours(self._without_ours(uuid))

    def _without_ours(self, uuid: str) -> OfferedGpu:
        """As decided; without instances that we have made."""
        decided = self._records.gpu(uuid).decided
        found = self._offered(uuid, AS_FOUND, None, configured=decided is not None)
        return as_decided(found, decided)

    def _with_ours(self, offered: OfferedGpu) -> OfferedGpu:
        """With those that stay."""
        ours = self._seen[offered.gpu.uuid].ours
        if not ours:
            return offered
        staying = self.at_rest(offered.gpu.uuid).places
        kept = tuple(instance for instance in ours if instance.place in staying)
        return dataclasses.replace(offered, instances=offered.instances + kept)

    def _offered(self, uuid: str, offered: Offers, policy: PolicyReference | None, *, configured: bool) -> OfferedGpu:
        seen = self._seen[uuid]
        return OfferedGpu(
            gpu=seen.gpu,
            offers=offered,
            policy=policy,
            configured=configured,
            mig_enabled=seen.mig_enabled,
            instances=seen.instances,
            memory_wall=seen.memory_wall,
        )

    def _in_its_slot(self, board: Board) -> Gpu:
        facts = {field.name: getattr(board, field.name) for field in dataclasses.fields(board)}
        return Gpu(slot=self._records.gpu(board.uuid).slot, **facts)

    def _as_seen(self, state: GpuState, memory_wall: MemoryWallSupport) -> Seen:
        journal = self._records.journal(state.board.uuid)
        made = {one.place for one in journal.instances}
        instances = [MigInstance(place=instance.place, uuid=instance.uuid) for instance in state.instances]
        return Seen(
            state=state,
            gpu=self._in_its_slot(state.board),
            mig_enabled=state.mig_mode is not None and state.mig_mode.current and journal.mig_mode is None,
            instances=tuple(instance for instance in instances if instance.place not in made),
            ours=tuple(instance for instance in instances if instance.place in made),
            memory_wall=memory_wall,
            mig_mode=self._mig_mode(state),
        )

    def _mig_mode(self, state: GpuState) -> MigMode | None:
        if state.mig_mode is None:
            return None
        uuid, current = state.board.uuid, state.mig_mode.current
        # For claims it is in the journal, for what a policy has cut for good in the GPU's record.
        before = (self._records.journal(uuid).mig_mode, self._records.gpu(uuid).mig_mode_found)
        return MigMode(enabled=current, found=next((mode for mode in before if mode is not None), current))

    def _as_last_seen(self, lost: SeenGpu) -> Seen:
        return Seen(
            state=GpuState(board=lost.board),
            gpu=self._in_its_slot(lost.board),
            mig_enabled=lost.mig_enabled,
            instances=lost.instances,
            ours=(),
            memory_wall=NOT_REPORTED,
        )


def _last_policy(record: GpuRecord, entries: Iterable[Entry]) -> PolicyReference | None:
    """Of devices that a policy has offered and that are still there."""
    before = record.published_policy
    return before if before and any(entry.policy == before.name for entry in entries) else None
