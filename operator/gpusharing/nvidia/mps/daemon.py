"""An MPS control daemon: as it is wanted, and as it was found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


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
