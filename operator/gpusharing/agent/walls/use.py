"""What containers have taken of what their walls allow."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from gpusharing.agent.walls.directories import NotedContainer
from gpusharing.nvidia.errors import OperatingSystemError
from gpusharing.nvidia.gpu_node import GpuNode
from gpusharing.nvidia.memory_walls import MemoryUse


async def memory_uses(
    hardware: GpuNode, uuid: str, cgroups: Path, noted: Iterable[NotedContainer]
) -> Mapping[NotedContainer, MemoryUse | None]:
    """By the driver's word, for containers that are still there; None: there is no wall, whatever our hook was told.
    `cgroups` is where they are mounted, a path that the driver must be able to look up, too."""
    uses = {}
    for container in noted:
        cgroup = container.seen_from(cgroups)
        try:
            if cgroup.is_dir():
                uses[container] = await hardware.memory_use(uuid, cgroup)
        except OperatingSystemError:
            # It has ended since.
            continue
    return uses
