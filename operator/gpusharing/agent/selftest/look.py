"""What a node says of itself when nothing is changed."""

import os
import platform
from pathlib import Path
from typing import Final

from gpusharing import __version__
from gpusharing.agent.selftest.report import Outcome, Report
from gpusharing.api.sharing.offers import Interval
from gpusharing.core.devices.gpu import MigSupport
from gpusharing.nvidia import wall_support
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.facts import GpuState, Inventory
from gpusharing.nvidia.gpu_node import GpuNode
from gpusharing.nvidia.memory_walls import MemoryWall

UNREADABLE: Final = "cannot be read: please add what `nvidia-smi compute-policy -l` prints"


def look_at_host(report: Report, cgroups: Path) -> None:
    section = report.section(f"Host, seen by gpusharing {__version__}")
    section.note(Outcome.OK, "kernel", f"{platform.system()} {platform.release()} {platform.machine()}")
    section.note(Outcome.OK, "user", "root" if os.geteuid() == 0 else f"uid {os.geteuid()}, so nothing can be changed")
    section.note(Outcome.OK, "cgroups", "v2" if wall_support.is_version_2(cgroups) else "v1")


async def look_at_driver(report: Report, hardware: GpuNode) -> Inventory | None:
    section = report.section("Driver")
    inventory = await section.check("inventory", hardware.inventory, _summary)
    if inventory is None:
        return None
    for gpu in inventory.broken:
        section.note(Outcome.FAILED, f"GPU with index {gpu.index}", f"{gpu.uuid or 'uuid unknown'}: {gpu.problem}")
    await section.check("events", hardware.events, lambda events: f"{len(events)}: {[str(event) for event in events]}")
    return inventory


async def look_at_gpu(report: Report, hardware: GpuNode, gpu: GpuState, specs: CdiSpecs) -> None:
    board = gpu.board
    section = report.section(f"{board.product_name} {board.uuid}")
    section.note(Outcome.OK, "board", _board(gpu))
    section.note(Outcome.OK if board.mig else Outcome.NOT_HERE, "MIG", _mig(board.mig, gpu))
    for problem in gpu.unknown:
        section.note(Outcome.FAILED, "unknown", problem)
    for ailment in gpu.ailments:
        section.note(Outcome.FAILED, "ailment", ailment)
    section.note(Outcome.OK, "processes", ", ".join(f"{one.pid} ({one.kind})" for one in gpu.processes) or "none")
    section.note(Outcome.OK if gpu.compute_mode else Outcome.NOT_HERE, "compute mode", gpu.compute_mode or "")
    await section.check("time slice", lambda: hardware.time_slice(board.uuid), interval_text, is_here=bool)
    await section.check(
        "memory wall", lambda: hardware.memory_wall(board.uuid), _wall, is_here=lambda wall: wall.supported
    )
    device = specs.gpu(board.uuid)
    section.note(Outcome.OK if specs.has(device) else Outcome.NOT_HERE, "CDI device", device)


def _summary(inventory: Inventory) -> str:
    versions = {(board.driver_version, board.cuda_driver_version) for board in inventory.boards}
    drivers = ", ".join(f"driver {driver}, CUDA {major}.{minor}" for driver, (major, minor) in sorted(versions))
    return f"{len(inventory.gpus)} GPUs, {len(inventory.broken)} broken; {drivers}"


def _board(gpu: GpuState) -> str:
    board = gpu.board
    return (
        f"{board.brand} {board.architecture}, compute capability {'.'.join(map(str, board.compute_capability))}, "
        f"{board.memory_mib} MiB, minor {board.minor}, PCI {board.pci_bus_id} at {board.pcie_root}, "
        f"NUMA node {board.numa_node}, addressing {board.addressing_mode}"
    )


def _mig(support: MigSupport | None, gpu: GpuState) -> str:
    if support is None:
        return "this GPU has none"
    profiles = "; ".join(
        f"{one.name} id {one.id} at {','.join(map(str, one.starts))}:{one.size}, {one.memory_mib} MiB"
        for one in support.profiles
    )
    switch = "resets the GPU" if support.switch_resets_gpu else "needs no reset"
    there = ", ".join(str(one) for one in gpu.instances) or "none"
    return f"{gpu.mig_mode}; a switch {switch}; instances: {there}; profiles: {profiles or 'unknown'}"


def interval_text(interval: Interval | None) -> str:
    return interval or UNREADABLE


def _wall(wall: MemoryWall) -> str:
    return "; ".join(f"{obstacle}: {why}" for obstacle, why in wall.obstacles.items()) or "supported"
