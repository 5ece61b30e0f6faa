"""GPUs and their MIG instances as they were found, and what an operation found and did."""

from dataclasses import dataclass
from enum import StrEnum
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
