"""Limits of a cgroup's part of a GPU's memory, and what they need."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
