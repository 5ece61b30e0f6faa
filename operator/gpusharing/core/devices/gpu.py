"""What a GPU is to the decisions: facts, whoever found them out."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol

from gpusharing.api.names import MigPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """What a GPU or a part of it computes with; the names are those of NVIDIA's DRA driver."""

    multiprocessors: int = 0
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """A kind of MIG instance that a GPU can be cut into."""

    id: int
    """The number that the driver, and NVIDIA's device names, know it by."""
    name: str
    """1g.10gb"""
    slices: int
    """Of the GPU's computing, of which there are seven, or four."""
    memory_mib: int
    engines: Engines
    size: int
    """How much of the GPU's memory slices it takes."""
    starts: tuple[int, ...]
    """The memory slices that it can begin at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """One that a GPU is cut into."""

    place: MigPlace
    uuid: str | None
    """The MIG device that programs see; None: there is none, or there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigSupport:
    profiles: tuple[MigProfile, ...]
    """None before R550 while MIG mode is off: those drivers tell them only when it is on."""
    switch_resets_gpu: bool
    """Ampere: a change of MIG mode needs the GPU to itself, and outlives a reboot."""

    def profile(self, id_: int) -> MigProfile | None:
        return next((profile for profile in self.profiles if profile.id == id_), None)

    def overlap(self, one: MigPlace, other: MigPlace) -> bool:
        """Whether instances at these places have memory in common."""
        profile, others = self.profile(one.profile_id), self.profile(other.profile_id)
        if profile is None or others is None:
            # What the driver does not know may be anywhere on the GPU.
            return True
        return one.start < other.start + others.size and other.start < one.start + profile.size

    @property
    def largest(self) -> Engines:
        """Of each kind, as many as the profile that has the most of it."""
        return _largest(profile.engines for profile in self.profiles)


class Divisible(Hashable, Protocol):
    """All that has to be known of a GPU to say what it can be cut into."""

    @property
    def memory_mib(self) -> int: ...

    @property
    def usable_mib(self) -> int: ...

    @property
    def mig(self) -> MigSupport | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A GPU as driver and kernel describe it."""

    uuid: str
    minor: int
    """The N of /dev/nvidiaN; may change."""
    product_name: str
    brand: str
    architecture: str
    memory_mib: int
    compute_capability: tuple[int, int]
    driver_version: str
    cuda_driver_version: tuple[int, int]
    pci_bus_id: str
    pcie_root: str | None = None
    numa_node: int | None = None
    reserved_mib: int = 0
    """Of its memory, what the driver keeps for itself."""
    addressing_mode: str | None = None
    """How it shares addresses with the CPU: HMM, ATS, or None where the driver does not tell."""
    mig: MigSupport | None = None
    """None: it cannot be cut."""

    @property
    def usable_mib(self) -> int:
        """What programs can have of its memory: shares are parts of this."""
        return self.memory_mib - self.reserved_mib


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(Board):
    """One that has its place on the node."""

    slot: int
    """The N of gpu-N; bound to the uuid for good."""


def _largest(all_engines: Iterable[Engines]) -> Engines:
    parts = list(all_engines)
    return Engines(
        multiprocessors=max((part.multiprocessors for part in parts), default=0),
        copy_engines=max((part.copy_engines for part in parts), default=0),
        decoders=max((part.decoders for part in parts), default=0),
        encoders=max((part.encoders for part in parts), default=0),
        jpeg_engines=max((part.jpeg_engines for part in parts), default=0),
        ofa_engines=max((part.ofa_engines for part in parts), default=0),
    )
