"""Every operation of the protocol, on a node with a GPU that somebody else has cut in part, and one that is whole."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusharing import sim
from gpusharing.api.sharing.offers import Interval
from gpusharing.nvidia.facts import GpuInstance, MigMode, MigPlace
from gpusharing.nvidia.hardware import Hardware
from gpusharing.nvidia.memory_walls import MemoryLimit
from gpusharing.nvidia.mps.daemon import MpsSetup
from nvidia.nodes import uuid

PLACE: Final = MigPlace(9, 4)
FOREIGN: Final = MigPlace(19, 0)
LIMIT: Final = MemoryLimit(most=1024**3)

_PROFILE_IDS: Final = {"3g.40gb": 9, "1g.10gb": 19}


@dataclass
class Bed:
    """What operations are tried on."""

    node: sim.SimNode
    hardware: Hardware
    foreign: GpuInstance
    cgroup: Path
    mps: Path

    @property
    def cut(self) -> str:
        return uuid(self.node, 0)

    @property
    def whole(self) -> str:
        return uuid(self.node, 1)

    def real(self) -> dict[MigPlace, bool]:
        """Places of the first GPU, and whether what is there is whole."""
        return {
            MigPlace(_PROFILE_IDS[instance.profile], instance.start): bool(instance.compute_instances)
            for instance in self.node.gpus()[0].gpu_instances
        }

    async def seen(self) -> dict[MigPlace, bool]:
        """The same, in our view."""
        found = await self.hardware.inventory()
        (cut,) = [gpu for gpu in found.gpus if gpu.board.uuid == self.cut]
        return {one.place: not one.is_remnant for one in cut.instances}

    async def reset(self, operation: "Operation") -> None:
        self.node.clear()
        await self.hardware.set_mig_mode(self.whole, enabled=False)
        await self.hardware.set_compute_mode(self.whole, "Default")
        await self.hardware.set_memory_limit(self.whole, self.cgroup, None)
        await self.hardware.destroy_mig_instance(self.cut, PLACE)
        await operation.prepare(self)
        # Known profiles would not be asked for.
        self.hardware._session.mig_profiles.clear()
        await self.hardware.events()


async def bed_of(node: sim.SimNode, hardware: Hardware, directory: Path) -> Bed:
    """Two H100 and a driver of 615 are expected."""
    cgroup = directory / "cgroup"
    cgroup.mkdir()
    await hardware.set_mig_mode(uuid(node), enabled=True)
    foreign = (await hardware.create_mig_instance(uuid(node), FOREIGN)).now
    assert foreign is not None
    return Bed(node, hardware, foreign, cgroup, directory / "mps")


async def nothing(bed: Bed) -> None:
    pass


async def is_so(bed: Bed) -> bool:
    return True


@dataclass
class Operation:
    method: str
    run: Callable[[Bed], Awaitable[Any]]
    prepare: Callable[[Bed], Awaitable[Any]] = nothing
    succeeded: Callable[[Bed], Awaitable[bool]] = is_so
    on_cut: bool = False
    runs_programs: bool = False
    """They meet faults of the driver in processes of their own."""

    def gpu(self, bed: Bed) -> str:
        return bed.cut if self.on_cut else bed.whole


def mig_is(*, enabled: bool) -> Callable[[Bed], Awaitable[bool]]:
    async def check(bed: Bed) -> bool:
        mode = bed.node.gpus()[1].mig_mode
        return mode is not None and MigMode(mode.current, mode.pending) == MigMode(current=enabled, pending=enabled)

    return check


def switch(*, enabled: bool) -> Callable[[Bed], Awaitable[Any]]:
    return lambda bed: bed.hardware.set_mig_mode(bed.whole, enabled=enabled)


async def is_exclusive(bed: Bed) -> bool:
    return bed.node.gpus()[1].compute_mode is sim.ComputeMode.EXCLUSIVE_PROCESS


async def is_long(bed: Bed) -> bool:
    return bed.node.gpus()[1].timeslice is sim.Timeslice.LONG


async def is_limited(bed: Bed) -> bool:
    use = await bed.hardware.memory_use(bed.whole, bed.cgroup)
    return use is not None and use.limit == LIMIT


async def is_made(bed: Bed) -> bool:
    return bed.real().get(PLACE) is True


async def is_gone(bed: Bed) -> bool:
    return PLACE not in bed.real()


async def start_mps(bed: Bed) -> Any:
    return await bed.hardware.start_mps(MpsSetup(directory=bed.mps, gpus=(bed.whole,)))


async def quit_mps(bed: Bed) -> Any:
    return await bed.hardware.quit_mps(bed.mps, grace=0)


async def mps_answers(bed: Bed) -> bool:
    daemon = await bed.hardware.mps(bed.mps)
    return daemon is not None and daemon.answers


async def mps_is_gone(bed: Bed) -> bool:
    return await bed.hardware.mps(bed.mps) is None


async def make(bed: Bed) -> Any:
    return await bed.hardware.create_mig_instance(bed.cut, PLACE)


OPERATIONS: Final = {
    "inventory": Operation("inventory", lambda bed: bed.hardware.inventory()),
    "events": Operation("events", lambda bed: bed.hardware.events()),
    "compute mode": Operation("compute_mode", lambda bed: bed.hardware.compute_mode(bed.whole)),
    "set compute mode": Operation(
        "set_compute_mode",
        lambda bed: bed.hardware.set_compute_mode(bed.whole, "ExclusiveProcess"),
        succeeded=is_exclusive,
    ),
    "time slice": Operation("time_slice", lambda bed: bed.hardware.time_slice(bed.whole), runs_programs=True),
    "set time slice": Operation(
        "set_time_slice",
        lambda bed: bed.hardware.set_time_slice(bed.whole, Interval.LONG),
        prepare=lambda bed: bed.hardware.set_time_slice(bed.whole, Interval.DEFAULT),
        succeeded=is_long,
        runs_programs=True,
    ),
    "MIG": Operation("mig", lambda bed: bed.hardware.mig(bed.cut), on_cut=True),
    "MIG mode on": Operation("set_mig_mode", switch(enabled=True), succeeded=mig_is(enabled=True)),
    "MIG mode off": Operation(
        "set_mig_mode", switch(enabled=False), prepare=switch(enabled=True), succeeded=mig_is(enabled=False)
    ),
    "create": Operation("create_mig_instance", make, succeeded=is_made, on_cut=True),
    "destroy": Operation(
        "destroy_mig_instance",
        lambda bed: bed.hardware.destroy_mig_instance(bed.cut, PLACE),
        prepare=make,
        succeeded=is_gone,
        on_cut=True,
    ),
    "device nodes": Operation(
        "mig_device_nodes", lambda bed: bed.hardware.mig_device_nodes(bed.cut, bed.foreign), on_cut=True
    ),
    "device node": Operation("device_node", lambda bed: bed.hardware.device_node(bed.cut), on_cut=True),
    "start MPS": Operation("start_mps", start_mps, prepare=quit_mps, succeeded=mps_answers, runs_programs=True),
    "MPS": Operation(
        "mps", lambda bed: bed.hardware.mps(bed.mps), prepare=start_mps, succeeded=mps_answers, runs_programs=True
    ),
    "list MPS": Operation(
        "mps_directories", lambda bed: bed.hardware.mps_directories(bed.mps.parent), runs_programs=True
    ),
    "quit MPS": Operation("quit_mps", quit_mps, prepare=start_mps, succeeded=mps_is_gone, runs_programs=True),
    "memory wall": Operation("memory_wall", lambda bed: bed.hardware.memory_wall(bed.whole)),
    "memory limit": Operation(
        "set_memory_limit",
        lambda bed: bed.hardware.set_memory_limit(bed.whole, bed.cgroup, LIMIT),
        succeeded=is_limited,
    ),
    "processes": Operation("processes", lambda bed: bed.hardware.processes(bed.whole)),
    "utilization": Operation("utilization", lambda bed: bed.hardware.utilization(bed.whole, since=0)),
    "memory used": Operation("memory_use", lambda bed: bed.hardware.memory_use(bed.whole, bed.cgroup)),
}
