"""What a GPU node says of itself, and what an operation says that it found and did."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from gpusharing.api.names import MigPlace as MigPlace  # noqa: PLC0414
from gpusharing.core.devices.gpu import Board
from gpusharing.core.publishing.gpu_health import Ailment as Ailment  # noqa: PLC0414

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What an operation found, and what is there now. All operations may be repeated: then the two are equal."""

    found: T
    now: T

    @property
    def changed(self) -> bool:
        return self.found != self.now

    def __str__(self) -> str:
        return f"{self.found} -> {self.now}" if self.changed else f"{self.now}, as before"


@dataclass(frozen=True, slots=True)
class MigMode:
    """Whether MIG is on, and whether it is to be after the next reset of the GPU."""

    current: bool
    pending: bool

    @property
    def settled(self) -> bool:
        return self.current == self.pending

    def __str__(self) -> str:
        now, then = ("on" if enabled else "off" for enabled in (self.current, self.pending))
        return now if self.settled else f"{now}, and {then} after the next reset"


@dataclass(frozen=True, slots=True)
class Span:
    """`size` slices from `start` on: memory slices of a GPU, or compute slices of a GPU instance."""

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size

    def overlaps(self, other: "Span") -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeInstance:
    id: int
    profile_id: int
    span: Span
    uuid: str
    """Of the MIG device: what CUDA programs see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInstance:
    """A part of a GPU."""

    id: int
    profile_id: int
    profile: str
    span: Span
    compute_instances: tuple[ComputeInstance, ...] = ()

    @property
    def place(self) -> MigPlace:
        return MigPlace(self.profile_id, self.span.start)

    @property
    def uuid(self) -> str | None:
        """Of its MIG device, where it is one: a remnant has none, and one that others cut further has several."""
        return self.compute_instances[0].uuid if len(self.compute_instances) == 1 else None

    @property
    def is_remnant(self) -> bool:
        """Left by whoever was interrupted between its two halves. No program can use it, and no list shows it."""
        return not self.compute_instances

    def __str__(self) -> str:
        text = f"GPU instance {self.id} ({self.profile} at {self.span.start})"
        return f"{text} without compute instance" if self.is_remnant else text


@dataclass(frozen=True, slots=True, kw_only=True)
class MigState:
    """How a GPU is cut now."""

    mode: MigMode
    switch_resets_gpu: bool
    instances: tuple[GpuInstance, ...] = ()

    def at(self, place: MigPlace) -> GpuInstance | None:
        return next((instance for instance in self.instances if instance.place == place), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A character device. With its numbers a container runtime can make it, also where the host has none."""

    path: str
    major: int
    minor: int
    mode: int


class ProcessKind(StrEnum):
    COMPUTE = "Compute"
    GRAPHICS = "Graphics"
    MPS_CLIENT = "MPSClient"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    pid: int
    kind: ProcessKind
    memory: int | None
    """In bytes; None where the driver does not tell."""
    gpu_instance: int | None = None
    compute_instance: int | None = None


class EventKind(StrEnum):
    XID = "Xid"
    """An error that the driver has a number for."""
    DOUBLE_BIT_ERROR = "DoubleBitError"
    """Memory that could not be corrected."""
    MIG_CHANGED = "MigChanged"
    """MIG mode or instances, whoever did it."""
    UNAVAILABLE = "Unavailable"
    RECOVERY_NEEDED = "RecoveryNeeded"
    """Whether the driver wants a reset or more has changed; see the ailments."""
    LOST = "Lost"
    UNMONITORED = "Unmonitored"
    """Nothing will be heard of this GPU, because it cannot report, or does not let itself be watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvent:
    kind: EventKind
    uuid: str | None
    """None where it cannot be told which: then it concerns all."""
    xid: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    place: MigPlace | None = None
    """Of the MIG instance. None: it is about the whole GPU, or the instance does not exist any more."""
    needs_recovery: bool | None = None
    """Whether the driver says that the GPU has to be recovered (R565 and newer). None: it does not say."""
    driver_load: int | None = None
    """When the driver that reported it was loaded: a number for each time. None: nobody can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """A GPU as it was found."""

    board: Board
    compute_mode: str | None = None
    """None where it cannot be set, as on one with MIG on."""
    mig_mode: MigMode | None = None
    """None: it cannot be cut."""
    instances: tuple[GpuInstance, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    ailments: tuple[Ailment, ...] = ()
    unknown: tuple[str, ...] = ()
    """What could not be found out, and why; the rest holds all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenGpu:
    """One that the driver counts and that does not say enough of itself to be used."""

    index: int
    uuid: str | None
    problem: str
    lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    gpus: tuple[GpuState, ...] = ()
    broken: tuple[BrokenGpu, ...] = ()
    driver_load: int | None = None
    """Another number each time that the driver is loaded; None: the kernel does not tell."""

    @property
    def boards(self) -> list[Board]:
        return [gpu.board for gpu in self.gpus]


class WallObstacle(StrEnum):
    """Why a GPU's memory cannot be divided among containers by the driver."""

    DRIVER = "Driver"
    GPU = "Gpu"
    MIG_MODE = "MigMode"
    CGROUP_VERSION = "CgroupVersion"
    TOOLKIT = "Toolkit"


@dataclass(frozen=True, slots=True)
class MemoryWall:
    """Whether the driver can hold containers to a part of this GPU's memory, and if not, all that is in the way."""

    obstacles: Mapping[WallObstacle, str] = field(default_factory=dict)

    @property
    def supported(self) -> bool:
        return not self.obstacles


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """What a cgroup may have of a GPU's memory, in bytes."""

    guaranteed: int = 0
    """Up to this, others have to make room for it."""
    most: int | None = None
    """Beyond this, allocations fail. None: as much as there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    limit: MemoryLimit
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsLimits:
    """What each client of an MPS daemon may have at most. It holds for clients that come from then on."""

    threads: int = 100
    """Percent of the multiprocessors."""
    memory_mib: Mapping[str, int] = field(default_factory=dict)
    """By uuid of the GPU."""


@dataclass(frozen=True, slots=True)
class MemoryEcho:
    """A limit of memory as a daemon prints it: drivers print it in units, cut or rounded."""

    mib: float
    unit: float

    def may_be(self, mib: int) -> bool:
        return abs(mib - self.mib) < self.unit


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsSetup:
    """An MPS control daemon as it is wanted."""

    directory: Path
    """Belongs to this daemon alone. See `mps.directory`."""
    gpus: tuple[str, ...]
    limits: MpsLimits = MpsLimits()


class MpsServerStatus(StrEnum):
    INITIALIZING = "Initializing"
    ACTIVE = "Active"
    FAULT = "Fault"
    """A client has failed: no new ones are let in before all others on its GPU have gone."""
    ORPHANED = "Orphaned"
    """Its daemon is dead. Its clients may work on, and nobody can join them."""
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsServer:
    """The process that computes for all clients; there is none before the first client."""

    pid: int
    status: MpsServerStatus
    clients: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsDaemon:
    pid: int | None
    """None: it is dead, and has left servers behind."""
    answers: bool
    """What follows is known only of one that does."""
    gpus: tuple[str, ...] = ()
    threads: int | None = None
    """None: its answer has no number."""
    memory: Mapping[str, MemoryEcho] = field(default_factory=dict)
    """The limits that it prints, by uuid of the GPU. Not every driver prints those that it has."""
    servers: tuple[MpsServer, ...] = ()
    failed_servers: int = 0
    """How many have ended with an error since it began: many on a GPU that does not suit MPS."""

    def contradicts(self, limits: MpsLimits) -> bool:
        """Whether it prints other limits. What it does not print may be so."""
        printed = {uuid: self.memory[uuid] for uuid in limits.memory_mib if uuid in self.memory}
        return self.threads not in {None, limits.threads} or not all(
            echo.may_be(limits.memory_mib[uuid]) for uuid, echo in printed.items()
        )

    def unconfirmed(self, limits: MpsLimits) -> tuple[str, ...]:
        """GPUs whose limit of memory it does not print."""
        return tuple(uuid for uuid in limits.memory_mib if uuid not in self.memory)
