"""What the agent must know after it was killed: kept in memory for speed, and on disk before anybody relies on it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, TypeVar

from pydantic import Field

from gpusharing.agent.files import Envelopes, boot_id, quarantined
from gpusharing.agent.hardware.facts import DeviceNode, MigPlace
from gpusharing.api import names
from gpusharing.api.base import ApiModel
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.node_spec import GpuSharing, PolicyReference
from gpusharing.api.sharing.offers import Interval, Offers
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.devices.gpu import Board, MigInstance
from gpusharing.core.devices.offered import AS_FOUND
from gpusharing.core.publishing.gpu_health import History
from gpusharing.core.publishing.narrowing import Publication, restarted
from gpusharing.kube.clock import seconds_since_boot

M = TypeVar("M", bound=ApiModel)

_NOTHING: Final = History()


class WallHook(ApiModel):
    """A program of ours on the host that holds a container to its memory before it starts, and where it is told how."""

    program: str
    directory: str


class MetadataMount(ApiModel):
    """What tells a container of its devices: a file of ours on the host, and where it is found in the container."""

    file: str
    path: str


class PreparedDevice(ApiModel):
    """One allocation result of a claim, and the answer that the kubelet got for it."""

    request: str
    pool: str
    device: str
    share_id: Annotated[str | None, Field(alias="shareID")] = None
    uuid: str
    admin: bool = False
    settings: DeviceSettings
    cdi_devices: tuple[str, ...]
    mig_uuid: str | None = None
    """Of a MIG instance, once it is there."""
    device_nodes: tuple[DeviceNode, ...] = ()
    """What a container is given beside the devices of NVIDIA's CDI spec."""
    mps_pipe: str | None = None
    """Where its MPS daemon is met."""
    mps_shm: str | None = None
    """What is /dev/shm to that daemon and its clients."""
    wall: WallHook | None = None
    """Of a device whose settings limit its memory."""
    metadata: MetadataMount | None = None
    """Of the first device of a request, for all of them."""


class PreparedClaim(ApiModel):
    uid: str
    namespace: str
    name: str
    allocation_hash: str
    pod_claim_name: str | None = None
    users: tuple[str, ...] = ()
    """Who had it reserved when it was prepared, for whoever reads the log."""
    devices: tuple[PreparedDevice, ...]

    @property
    def display_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def without_instances(self) -> "PreparedClaim":
        devices = tuple(device.model_copy(update={"mig_uuid": None, "device_nodes": ()}) for device in self.devices)
        return self.model_copy(update={"devices": devices})


class GpuSettings(ApiModel):
    time_slice: Interval | None = None
    compute_mode: str | None = None


class MadeInstance(ApiModel):
    """A MIG instance that we have made, or are about to make at a place that was free."""

    profile_id: int
    start: int
    uuid: str | None = None

    @property
    def place(self) -> MigPlace:
        return MigPlace(self.profile_id, self.start)


class GpuJournal(ApiModel):
    """What we have changed on a GPU, written down before it is changed: with what it goes back to."""

    settings: GpuSettings | None = None
    """How it was set."""
    mig_mode: bool | None = None
    """Whether MIG was on."""
    instances: tuple[MadeInstance, ...] = ()
    """What there is to destroy."""


class GpuRecord(ApiModel):
    """The slot is a GPU's for good; the rest is what it was last told and what is published for it."""

    slot: int
    decided: GpuSharing | None = None
    """The operator's last word on it."""
    published_offers: Offers = AS_FOUND
    published_policy: PolicyReference | None = None
    published_allow: Allowance | None = None
    published_configured: bool = False
    publication: Publication | None = None
    """The devices that are published. Absent: nobody knows."""
    mig_mode_found: bool | None = None
    """MIG mode before we switched it where the driver keeps it over a reboot; elsewhere the journal has it."""

    def after_reboot(self, *, now: float) -> "GpuRecord":
        """Its times are of a clock that began anew."""
        if self.publication is None:
            return self
        return self.model_copy(update={"publication": restarted(self.publication, now=now)})


class GpuHealth(ApiModel):
    """What the hardware does not tell again."""

    history: History


class LostGpu(ApiModel):
    """One that has fallen off the bus, as it was last seen: it is described so until the next boot."""

    board: Board
    mig_enabled: bool
    instances: tuple[MigInstance, ...] = ()


class Generation(ApiModel):
    """The generation of a pool; it never goes back, also when the kubelet has deleted all slices."""

    value: int = 0


class Records:
    def __init__(self, directory: Path, *, proc_root: Path = Path("/proc")) -> None:
        boot = boot_id(proc_root)
        self.boot_id = boot
        # After a reboot the kubelet asks anew for every claim of a pod that is still there, and the hardware has gone
        # back by itself.
        self._claims_on_disk = Envelopes(directory / "claims", PreparedClaim, boot=boot, survives_reboot=False)
        self._journals_on_disk = Envelopes(directory / "journal", GpuJournal, boot=boot, survives_reboot=False)
        self._health_on_disk = Envelopes(directory / "health", GpuHealth, boot=boot, survives_reboot=False)
        self._lost_on_disk = Envelopes(directory / "lost", LostGpu, boot=boot, survives_reboot=False)
        self._gpus_on_disk = Envelopes(directory / "gpus", GpuRecord, boot=boot, survives_reboot=True)
        self._pool_on_disk = Envelopes(directory / "pool", Generation, boot=boot, survives_reboot=True)
        self._claims = {
            # MIG instances are made anew after a reboot, as others.
            key: claim if is_this_boot else claim.without_instances
            for key, claim, is_this_boot in self._claims_on_disk.read_all()
        }
        self._gpus = {
            key: record if is_this_boot else record.after_reboot(now=seconds_since_boot())
            for key, record, is_this_boot in self._gpus_on_disk.read_all()
        }
        self._lost_claims = self._claims_on_disk.put_aside() - self._claims.keys()
        self._generations = {key: generation.value for key, generation, _ in self._pool_on_disk.read_all()}
        # A reboot has set everything back already, and what was wrong before it shows anew.
        self._journals = _of_this_boot(self._journals_on_disk)
        self._health = _of_this_boot(self._health_on_disk)
        self._lost = _of_this_boot(self._lost_on_disk)
        self._directory = directory
        # None are put aside later.
        self._has_put_aside = bool(quarantined(directory))

    @property
    def quarantined(self) -> int:
        """How many files were put aside when they were read."""
        kinds = (self._claims_on_disk, self._journals_on_disk, self._gpus_on_disk, self._pool_on_disk)
        return sum(kind.quarantined for kind in kinds)

    @property
    def claims(self) -> Mapping[str, PreparedClaim]:
        return self._claims

    def claims_on(self, uuid: str) -> list[tuple[PreparedClaim, PreparedDevice]]:
        """Who holds the GPU. Whoever only looks (admin access) is not among them."""
        return [
            (claim, device)
            for claim in self._claims.values()
            for device in claim.devices
            if device.uuid == uuid and not device.admin
        ]

    @property
    def lost_claims(self) -> frozenset[str]:
        """Uids of claims that hold nobody knows what, because their records could not be trusted."""
        return frozenset(self._lost_claims)

    def put_claim(self, claim: PreparedClaim) -> None:
        self._claims_on_disk.write(claim.uid, claim)
        self._claims[claim.uid] = claim
        self._found(claim.uid)

    def drop_claim(self, uid: str) -> None:
        self._claims_on_disk.delete(uid)
        self._claims.pop(uid, None)
        self._found(uid)

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
            self._journals_on_disk.delete(uuid)
            self._journals.pop(uuid, None)
        else:
            self._journals_on_disk.write(uuid, journal)
            self._journals[uuid] = journal

    def history(self, uuid: str) -> History:
        return self._health[uuid].history if uuid in self._health else _NOTHING

    def put_history(self, uuid: str, history: History) -> None:
        if history == self.history(uuid):
            return
        # First for ourselves: nobody says it again, also when the disk is full.
        self._health[uuid] = GpuHealth(history=history)
        if history == _NOTHING:
            self._health_on_disk.delete(uuid)
        else:
            self._health_on_disk.write(uuid, self._health[uuid])

    @property
    def lost(self) -> Mapping[str, LostGpu]:
        return self._lost

    def put_lost(self, gpu: LostGpu) -> None:
        if self._lost.get(gpu.board.uuid) != gpu:
            self._lost_on_disk.write(gpu.board.uuid, gpu)
            self._lost[gpu.board.uuid] = gpu

    def drop_lost(self, uuid: str) -> None:
        if uuid in self._lost:
            self._lost_on_disk.delete(uuid)
            del self._lost[uuid]

    def gpu(self, uuid: str) -> GpuRecord:
        """The record of a GPU; one that is new here gets the lowest slot that no GPU ever had."""
        if uuid not in self._gpus:
            self.put_gpu(uuid, GpuRecord(slot=self._slot_for(uuid)))
        return self._gpus[uuid]

    def _slot_for(self, uuid: str) -> int:
        # Of a GPU whose record was lost, the devices in claims still speak by its slot.
        devices = [device for claim in self._claims.values() for device in claim.devices]
        in_claims = {device.uuid: names.slot_of_device(device.device) for device in devices}
        if (known := in_claims.get(uuid)) is not None:
            return known
        taken = {record.slot for record in self._gpus.values()} | set(in_claims.values())
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def put_gpu(self, uuid: str, record: GpuRecord) -> None:
        if self._gpus.get(uuid) != record:
            self._gpus_on_disk.write(uuid, record)
            self._gpus[uuid] = record

    def generation(self, pool: str) -> int:
        return self._generations.get(_generation_key(pool), 0)

    def put_generation(self, pool: str, value: int) -> None:
        if value != self.generation(pool):
            self._pool_on_disk.write(_generation_key(pool), Generation(value=value))
            self._generations[_generation_key(pool)] = value


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
