"""What the agent must know after it was killed: kept in memory for speed, and on disk before anybody relies on it.

Where claims, journals, publications or generations cannot be written, that is an OSError, and nothing is changed. What
was learned of GPUs is kept in memory all the same, and written as soon as that is possible. What is forced to the disk
is awaited; all else goes no further than to the kernel.
"""

from collections.abc import Awaitable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from gpusharing.agent.state.durable import DurableRecords
from gpusharing.agent.state.ended import EndedClaims
from gpusharing.agent.state.files import Boot, Envelopes, quarantined
from gpusharing.agent.state.models import (
    Generation,
    GpuHealth,
    GpuJournal,
    GpuRecord,
    PreparedClaim,
    PreparedDevice,
    SeenGpu,
)
from gpusharing.api import names
from gpusharing.api.base import ApiModel
from gpusharing.core.publishing.gpu_health import History
from gpusharing.kube.clock import seconds_since_boot

M = TypeVar("M", bound=ApiModel)

log = structlog.get_logger(__name__)

_NOTHING: Final = History()


class Records:
    def __init__(self, directory: Path, *, proc_root: Path = Path("/proc"), runtime: Path | None = None) -> None:
        """`runtime` is a directory that a reboot empties, as it sets GPUs back. It has the journals, too: nobody else
        knows what GPUs go back to."""
        boot = Boot.read(proc_root)
        self.boot = boot
        # After a reboot the kubelet asks anew for every claim of a pod that is still there, and the hardware has gone
        # back by itself.
        self._claims_on_disk = Envelopes(directory / "claims", PreparedClaim, boot=boot, survives_reboot=False)
        self._journals_on_disk = Envelopes(directory / "journal", GpuJournal, boot=boot, survives_reboot=False)
        self._journals_in_runtime: Envelopes[GpuJournal] | None = None
        if runtime:
            runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
            copies = runtime / ".journal"
            self._journals_in_runtime = Envelopes(copies, GpuJournal, boot=boot, survives_reboot=False)
        self._health_on_disk = Envelopes(directory / "health", GpuHealth, boot=boot, survives_reboot=False)
        seen_on_disk = Envelopes(directory / "seen", SeenGpu, boot=boot, survives_reboot=True, is_seen_again=True)
        self._gpus_on_disk = Envelopes(directory / "gpus", GpuRecord, boot=boot, survives_reboot=True)
        self._pool_on_disk = Envelopes(directory / "pool", Generation, boot=boot, survives_reboot=True)
        self._claims: dict[str, PreparedClaim] = {}
        self._earlier_claims: dict[str, PreparedClaim] = {}
        self._on_gpu: dict[str, dict[str, PreparedClaim]] = {}
        """The claims that hold a GPU, of this boot and of before, by the GPU's uuid and the claim's uid."""
        for key, claim, is_this_boot in self._claims_on_disk.read_all():
            (self._claims if is_this_boot else self._earlier_claims)[key] = claim
            self._index(claim)
        disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk")
        gpus = {
            key: record if is_this_boot else record.after_reboot(now=seconds_since_boot())
            for key, record, is_this_boot in self._gpus_on_disk.read_all()
        }
        self._gpus = DurableRecords(self._gpus_on_disk, gpus, disk)
        self.is_empty = not gpus
        """Whether no GPU had a record at the start: the node is new, or its state was lost."""
        self.lost_state = False
        """Whether the node had GPUs all the same."""
        self._ended_early = EndedClaims(directory / "ended")
        self._lost_claims = self._claims_on_disk.put_aside() - self._claims.keys() - self._earlier_claims.keys()
        generations = {key: generation for key, generation, _ in self._pool_on_disk.read_all()}
        self._generations = DurableRecords(self._pool_on_disk, generations, disk)
        # A reboot has set everything back already, and what was wrong before it shows anew.
        self._journals = self._read_journals()
        self._health = _of_this_boot(self._health_on_disk)
        seen = list(seen_on_disk.read_all())
        self._seen = DurableRecords(seen_on_disk, {key: gpu for key, gpu, _ in seen}, disk)
        self._not_seen_yet = {key for key, _, is_this_boot in seen if not is_this_boot}
        """In this boot."""
        self._directory = directory
        # None are put aside later.
        self._has_put_aside = bool(quarantined(directory))

    @property
    def quarantined(self) -> int:
        """How many files were put aside when they were read."""
        kinds = (self._claims_on_disk, self._journals_on_disk, self._gpus_on_disk, self._pool_on_disk)
        return sum(kind.quarantined for kind in kinds)

    @property
    def unwritable(self) -> OSError | None:
        """Why something could not be written, as long as that is so."""
        failures = [files.failure for files, _ in self._undurable()]
        failures += [self._seen.failure, self._gpus.failure, self._generations.failure]
        return next(filter(None, failures), None)

    async def flush(self) -> None:
        """Writes what was only kept in mind, if that is possible."""
        for files in (self._seen, self._gpus):
            await files.flush()

    async def restore(self) -> list[Path]:
        """Writes what others have deleted, and what could not be written before. Returns the former."""
        paths = [path for files, contents in self._undurable() for path in files.renew(contents)]
        # Nothing of an earlier boot may become part of this one by being written.
        paths += await self._seen.renew(but=self._not_seen_yet)
        return [*paths, *await self._gpus.renew(), *await self._generations.renew()]

    def _undurable(self) -> tuple[tuple[Envelopes[Any], Mapping[str, Any]], ...]:
        """Likewise only what there is of this boot."""
        in_runtime = ((self._journals_in_runtime, self._journals),) if self._journals_in_runtime else ()
        return (
            (self._claims_on_disk, self._claims),
            (self._journals_on_disk, self._journals),
            *in_runtime,
            (self._health_on_disk, self._health),
        )

    @property
    def claims(self) -> Mapping[str, PreparedClaim]:
        """Those that were prepared in this boot."""
        return self._claims

    @property
    def earlier_claims(self) -> Mapping[str, PreparedClaim]:
        """Those that were prepared before this boot, and neither again nor given back since. They keep their devices
        from others, but what they say of GPUs and containers holds no more."""
        return self._earlier_claims

    @property
    def all_claims(self) -> Mapping[str, PreparedClaim]:
        return self._earlier_claims | self._claims if self._earlier_claims else self._claims

    def claims_on(self, uuid: str) -> list[tuple[PreparedClaim, PreparedDevice]]:
        """What the GPU is set for. Claims with admin access are not among them."""
        return [(claim, device) for claim, device in self.holders_of(uuid) if claim.uid in self._claims]

    def holders_of(self, uuid: str) -> list[tuple[PreparedClaim, PreparedDevice]]:
        """Who keeps the GPU from others: those of before this boot, too."""
        return [
            (claim, device)
            for claim in self._on_gpu.get(uuid, {}).values()
            for device in claim.devices
            if device.uuid == uuid and not device.admin
        ]

    def lose_claims(self, uids: Iterable[str]) -> None:
        """Claims without a record that something else tells of."""
        self._lost_claims.update(set(uids) - self.all_claims.keys() - self._ended_early.uids)

    def end_early(self, uid: str) -> None:
        """Before the state is recovered: what files and the NodeSharing say of the claim is older."""
        # Of a node without records, the next agent would believe the NodeSharing, too.
        self._ended_early.add(uid, for_next_agent=self.is_empty)

    def forget_ended(self) -> None:
        """The state is recovered, and GPUs have records: nobody believes older reports any more."""
        self._ended_early.forget()

    @property
    def lost_claims(self) -> frozenset[str]:
        """Uids of claims that hold nobody knows what, because their records could not be trusted."""
        return frozenset(self._lost_claims)

    def put_claim(self, claim: PreparedClaim) -> None:
        self._claims_on_disk.write(claim.uid, claim)
        self._forget_index(claim.uid)
        self._claims[claim.uid] = claim
        self._index(claim)
        self._earlier_claims.pop(claim.uid, None)
        self._found(claim.uid)

    def drop_claim(self, uid: str) -> None:
        self._claims_on_disk.delete(uid)
        self._forget_index(uid)
        self._claims.pop(uid, None)
        self._earlier_claims.pop(uid, None)
        self._found(uid)

    def _index(self, claim: PreparedClaim) -> None:
        for uuid in {device.uuid for device in claim.devices if not device.admin}:
            self._on_gpu.setdefault(uuid, {})[claim.uid] = claim

    def _forget_index(self, uid: str) -> None:
        known = self.all_claims.get(uid)
        for device in known.devices if known else ():
            self._on_gpu.get(device.uuid, {}).pop(uid, None)

    def _found(self, uid: str) -> None:
        if uid in self._lost_claims:
            self._claims_on_disk.forget(uid)
            self._lost_claims.discard(uid)

    @property
    def put_aside(self) -> list[Path]:
        """Files that could not be trusted, as long as nobody has found out what they were about."""
        return quarantined(self._directory) if self._has_put_aside else []

    def journal(self, uuid: str) -> GpuJournal:
        return self._journals.get(uuid, GpuJournal())

    @property
    def changed_gpus(self) -> list[str]:
        return list(self._journals)

    def put_journal(self, uuid: str, journal: GpuJournal) -> None:
        if journal == self.journal(uuid):
            return
        if journal == GpuJournal():
            # First, so that the next agent does not take what is over for what was lost.
            self._keep_in_runtime(uuid, None)
            self._journals_on_disk.delete(uuid)
            self._journals.pop(uuid, None)
        else:
            self._journals_on_disk.write(uuid, journal)
            self._keep_in_runtime(uuid, journal)
            self._journals[uuid] = journal

    def _keep_in_runtime(self, uuid: str, journal: GpuJournal | None) -> None:
        if self._journals_in_runtime:
            self._journals_in_runtime.keep(uuid, journal)

    def _read_journals(self) -> dict[str, GpuJournal]:
        journals = _of_this_boot(self._journals_on_disk)
        copies = _of_this_boot(self._journals_in_runtime) if self._journals_in_runtime else {}
        for uuid in copies.keys() - journals.keys():
            log.warning("GPU journal recovered", uuid=uuid)
            journals[uuid] = copies[uuid]
            self._journals_on_disk.keep(uuid, copies[uuid])
            self._journals_on_disk.forget(uuid)
        for uuid in journals.keys() - copies.keys():
            self._keep_in_runtime(uuid, journals[uuid])
        return journals

    def history(self, uuid: str) -> History:
        return self._health[uuid].history if uuid in self._health else _NOTHING

    def put_history(self, uuid: str, history: History) -> None:
        if history == self.history(uuid):
            return
        if history == _NOTHING:
            self._health.pop(uuid, None)
        else:
            self._health[uuid] = GpuHealth(history=history)
        self._health_on_disk.keep(uuid, self._health.get(uuid))

    @property
    def missed_gpus(self) -> Mapping[str, SeenGpu]:
        """As they were last seen: those that were seen in this boot, and those of before that claims hold."""
        return {
            uuid: seen
            for uuid, seen in self._seen.contents.items()
            if uuid not in self._not_seen_yet or self.holders_of(uuid)
        }

    def put_seen(self, gpu: SeenGpu) -> None:
        uuid = gpu.board.uuid
        if self._seen.contents.get(uuid) != gpu or uuid in self._not_seen_yet:
            self._seen.keep(uuid, gpu)
            self._not_seen_yet.discard(uuid)

    def gpu(self, uuid: str) -> GpuRecord:
        """The record of a GPU; one that is new here gets the lowest slot that no GPU ever had."""
        if uuid not in self._gpus.contents:
            self.keep_gpu(uuid, GpuRecord(slot=self._slot_for(uuid)))
        return self._gpus.contents[uuid]

    def has_slot(self, uuid: str) -> bool:
        return uuid in self._gpus.contents or self._slot_in_claims(uuid) is not None

    async def give_slots(self, slots: Mapping[str, int]) -> None:
        """To GPUs that have no record, as long as nobody else has the slot."""
        for uuid, slot in slots.items():
            if not self.has_slot(uuid) and slot not in self._taken_slots():
                await self.put_gpu(uuid, GpuRecord(slot=slot))

    def _slot_for(self, uuid: str) -> int:
        # Of a GPU whose record was lost, the devices in claims still speak by its slot.
        if (known := self._slot_in_claims(uuid)) is not None:
            return known
        taken = self._taken_slots()
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def _taken_slots(self) -> set[int | None]:
        return {record.slot for record in self._gpus.contents.values()} | set(self._slots_in_claims().values())

    def _slot_in_claims(self, uuid: str) -> int | None:
        return self._slots_in_claims().get(uuid)

    def _slots_in_claims(self) -> dict[str, int | None]:
        devices = [device for claim in self.all_claims.values() for device in claim.devices]
        return {device.uuid: names.slot_of_device(device.device) for device in devices}

    def put_gpu(self, uuid: str, record: GpuRecord) -> Awaitable[None]:
        return self._gpus.put(uuid, record)

    def has_lost_gpu(self, uuid: str) -> bool:
        """Whether a record of this GPU was there that cannot be trusted."""
        return self.lost_state or uuid in self._gpus_on_disk.put_aside()

    async def recover_gpu(self, uuid: str, *, mig_mode_found: bool | None) -> None:
        await self.put_gpu(uuid, self.gpu(uuid).model_copy(update={"mig_mode_found": mig_mode_found}))
        self._gpus_on_disk.forget(uuid)

    def keep_gpu(self, uuid: str, record: GpuRecord) -> None:
        """What nobody relies on before something else of it is written."""
        if self._gpus.contents.get(uuid) != record:
            self._gpus.keep(uuid, record)

    def generation(self, pool: str) -> int:
        generation = self._generations.contents.get(_generation_key(pool))
        return generation.value if generation else 0

    async def put_generation(self, pool: str, value: int) -> None:
        if value != self.generation(pool):
            await self._generations.put(_generation_key(pool), Generation(value=value))


def _generation_key(pool: str) -> str:
    """The pool of the node was once the only one."""
    policy = names.policy_of_pool(pool)
    return f"generation-{policy}" if policy else "generation"


def _of_this_boot(files: Envelopes[M]) -> dict[str, M]:
    found: dict[str, M] = {}
    for key, content, is_this_boot in files.read_all():
        if is_this_boot:
            found[key] = content
        else:
            files.delete(key)
    return found
