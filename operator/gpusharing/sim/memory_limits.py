"""To how much memory of a GPU the driver holds cgroups, from R615 on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpusharing.sim.state import NodeState

_UNLIMITED = 2**64 - 1


@dataclass(frozen=True)
class MemoryLimit:
    """In bytes."""

    gpu: int
    """Its index."""
    cgroup: Path
    soft: int
    hard: int | None
    """None is without limit."""


def read(state: NodeState) -> list[MemoryLimit]:
    return [
        MemoryLimit(
            gpu=limit.gpu,
            cgroup=Path(limit.path.decode()),
            soft=limit.soft,
            hard=None if limit.hard == _UNLIMITED else limit.hard,
        )
        for limit in state.memory_limits
        if limit.cgroup.inode
    ]
