"""What stands in the way of memory walls on a GPU: driver, board, kernel, and container toolkit."""

from pathlib import Path
from typing import Final

from gpusharing.nvidia.cdi_specs import MEMORY_LIMITS, CdiSpecs
from gpusharing.nvidia.errors import DriverTooOldError, NotSupportedError, OperatingSystemError
from gpusharing.nvidia.memory_walls import MemoryWall, WallObstacle
from gpusharing.nvidia.nvml import memory_limits, mig_mode
from gpusharing.nvidia.nvml.session import Device

# The only place that NVIDIA's hook looks at.
CGROUPS: Final = "fs/cgroup"


def of_driver(gpu: Device, cgroups: Path) -> MemoryWall:
    """By asking for the limit of the root cgroup, which changes nothing."""
    try:
        memory_limits.read(gpu, cgroups)
    except DriverTooOldError:
        return MemoryWall({WallObstacle.DRIVER: "the driver has no memory limits: they came with R615 (CUDA 13.4)"})
    except NotSupportedError:
        if mig_mode.is_on(gpu):
            return MemoryWall({WallObstacle.MIG_MODE: "MIG mode is on, and MIG instances are walls of their own"})
        return MemoryWall({WallObstacle.GPU: "the driver has no memory limits for this GPU"})
    except OperatingSystemError:
        if is_version_2(cgroups):
            raise
        # It has looked for a hierarchy that is not there, which `of_node` says.
    return MemoryWall()


def is_version_2(cgroups: Path) -> bool:
    return (cgroups / "cgroup.controllers").exists()


def of_node(uuid: str, cgroups: Path, specs: CdiSpecs) -> MemoryWall:
    obstacles = {}
    if not is_version_2(cgroups):
        obstacles[WallObstacle.CGROUP_VERSION] = f"{cgroups} is not cgroup v2: boot with unified cgroups"
    if MEMORY_LIMITS not in specs.hooks_of(specs.gpu(uuid)):
        searched = ", ".join(map(str, specs.directories))
        obstacles[WallObstacle.TOOLKIT] = (
            f"no CDI spec in {searched} has the hook {MEMORY_LIMITS} for this GPU: "
            "it takes nvidia-container-toolkit 1.20.1"
        )
    return MemoryWall(obstacles)
