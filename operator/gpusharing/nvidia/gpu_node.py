"""What a node with GPUs can do. Everything above this package speaks to GPUs in these words only.

All operations may be repeated, and say what they found and what there is now. GPUs are named by their uuid, which
outlives everything but the board; nothing else is kept between two operations. What goes wrong is a HardwareError whose
kind says what to do, and whose message names the GPU. No operation waits longer for the driver than its patience: when
the driver hangs, it and all that follow fail with a DriverHungError, at once, until the driver answers again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from gpusharing.api.sharing.offers import Interval
from gpusharing.nvidia.errors import DriverHungError
from gpusharing.nvidia.facts import Change, DeviceNode, GpuInstance, GpuProcess, Inventory, MigMode, MigPlace, MigState
from gpusharing.nvidia.gpu_event import GpuEvent
from gpusharing.nvidia.memory_walls import MemoryLimit, MemoryUse, MemoryWall
from gpusharing.nvidia.mps.daemon import MpsDaemon, MpsSetup


class GpuNode(Protocol):
    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def hung(self) -> DriverHungError | None:
        """What the driver does not come back from: then the whole node is unhealthy."""

    async def inventory(self) -> Inventory:
        """All GPUs that the driver counts, also those that do not answer."""

    async def compute_mode(self, uuid: str) -> str | None:
        """None where it cannot be set."""

    async def set_compute_mode(self, uuid: str, mode: str) -> Change[str]:
        """At once, for programs that start from then on. The driver forgets it at a reboot."""

    async def time_slice(self, uuid: str) -> Interval | None:
        """None where it cannot be read: the GPU has no such setting, or nvidia-smi lists it in words not known here."""

    async def set_time_slice(self, uuid: str, interval: Interval) -> None:
        """For programs that start from then on. The driver forgets it at a reboot. Nothing is read, before or after."""

    async def mig(self, uuid: str) -> MigState | None:
        """None: it cannot be cut."""

    async def set_mig_mode(self, uuid: str, *, enabled: bool) -> Change[MigMode]:
        """Refused while processes or instances are on the GPU. Up to Ampere it resets the GPU, which fails where others
        have it open (a MigModePendingError) or the node cannot do it (a ResetRequiredError); then the wish stays with
        the driver until it is taken back. The GPU's minor number may be another one afterwards.
        """

    async def create_mig_instance(self, uuid: str, place: MigPlace) -> Change[GpuInstance | None]:
        """All of it or nothing. One that is there already is found, and a remnant at this place is completed."""

    async def destroy_mig_instance(
        self, uuid: str, place: MigPlace, *, mig_uuid: str | None = None
    ) -> Change[GpuInstance | None]:
        """Also a remnant. With `mig_uuid` only that one, and no other that somebody made at its place."""

    async def start_mps(self, setup: MpsSetup) -> Change[MpsDaemon | None]:
        """A daemon that answers and was given the limits, in a directory that containers can use. One that runs there
        already, whoever started it, is adopted. To be repeated now and then: it mends what can be mended."""

    async def mps(self, directory: Path) -> MpsDaemon | None:
        """The daemon of this directory, also one that is dead or does not answer; None: there is nothing."""

    async def mps_directories(self, home: Path) -> list[Path]:
        """Of all daemons that were started in this home, also those whose directory somebody has removed."""

    async def quit_mps(self, directory: Path, *, grace: int) -> Change[MpsDaemon | None]:
        """Clients have so many seconds to end by themselves. Whatever of this directory is left then, is ended by
        force; nothing else is. The directory is gone afterwards."""

    async def mig_device_nodes(self, uuid: str, instance: GpuInstance) -> Change[tuple[DeviceNode, ...]]:
        """What a container needs of an instance beside the device of its GPU. Those that the node lacks are made."""

    async def device_node(self, uuid: str) -> DeviceNode:
        """Of the GPU itself, for containers that get it from no CDI device."""

    async def events(self) -> tuple[GpuEvent, ...]:
        """What GPUs have reported since this was last asked; the first question begins the watch. To be asked every
        second or so."""

    async def set_memory_limit(self, uuid: str, cgroup: Path, limit: MemoryLimit | None) -> Change[MemoryLimit | None]:
        """Holds the processes of a cgroup (a directory of cgroup v2) to a limit of their own; None takes it away, as
        the cgroup's end does. See `memory_wall`."""

    async def memory_wall(self, uuid: str) -> MemoryWall:
        """Whether memory limits can hold containers on this GPU apart."""

    async def memory_use(self, uuid: str, cgroup: Path) -> MemoryUse | None:
        """None where the cgroup has no limit: then nobody counts what it uses."""

    async def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        """All that use the GPU or an instance of it, by the numbers of the host's PID namespace."""

    async def utilization(self, uuid: str, *, since: float) -> Mapping[int, float] | None:
        """By process, which part of the GPU's time it has used since this moment of the clock; those that have used
        none are not there. None: the driver does not know, as with MIG."""
