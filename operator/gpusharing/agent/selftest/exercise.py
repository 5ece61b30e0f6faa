"""Every setting of an idle GPU, changed and put back."""

from functools import partial
from pathlib import Path
from typing import Final

from gpusharing.agent.selftest import witness
from gpusharing.agent.selftest.look import UNREADABLE, interval_text
from gpusharing.agent.selftest.report import Outcome, Report, Section
from gpusharing.api.sharing.offers import Interval
from gpusharing.nvidia.cuda import Cuda, CudaUse
from gpusharing.nvidia.errors import HardwareError, SettingNotAppliedError
from gpusharing.nvidia.facts import GpuInstance, GpuState, Inventory, MigPlace
from gpusharing.nvidia.gpu_node import GpuNode
from gpusharing.nvidia.memory_walls import MemoryLimit, WallObstacle
from gpusharing.nvidia.mps.daemon import MpsDaemon, MpsLimits, MpsSetup

# No whole number of GiB: some drivers print those only.
_MPS_LIMIT_MIB: Final = 1500
_MPS_THREADS: Final = 50
_SOME_MIB: Final = 100
_WALL_MIB: Final = 1024
# The toolkit's hook is for containers; here there are none.
_IN_THE_WAY: Final = {*WallObstacle} - {WallObstacle.TOOLKIT}


async def exercise(
    report: Report,
    hardware: GpuNode,
    cuda: Cuda,
    inventory: Inventory,
    chosen: str | None,
    *,
    cgroups: Path,
    mps_home: Path,
) -> None:
    candidates = [gpu for gpu in inventory.gpus if chosen in {None, gpu.board.uuid}]
    gpu = next((gpu for gpu in candidates if _is_idle(gpu)), None)
    if gpu is None:
        needs = "it must have no process, no MIG instance and no pending MIG mode"
        section = report.section("Exercise")
        section.note(Outcome.FAILED, "idle GPU", f"{chosen or 'no GPU of this node'} is not there or not idle: {needs}")
        return
    section = report.section(f"Exercise on {gpu.board.product_name} {gpu.board.uuid}")
    whole = await _whole(section, cuda, gpu)
    await _compute_mode(section, hardware, gpu)
    await _time_slice(section, hardware, gpu)
    await _mps(section, hardware, cuda, gpu, whole, home=mps_home)
    await _memory_limit(section, hardware, cuda, gpu, cgroups)
    await _mig(section, hardware, cuda, gpu)


def _is_idle(gpu: GpuState) -> bool:
    is_settled = gpu.mig_mode is None or gpu.mig_mode.settled
    return is_settled and not (gpu.processes or gpu.instances or gpu.unknown)


async def _whole(section: Section, cuda: Cuda, gpu: GpuState) -> CudaUse | None:
    if gpu.mig_mode and gpu.mig_mode.current:
        section.note(Outcome.NOT_HERE, "CUDA program", "MIG mode is on: programs can use MIG instances only")
        return None
    return await section.check("CUDA program", lambda: cuda.use(gpu.board.uuid, mib=_SOME_MIB), witness.describe)


async def _compute_mode(section: Section, hardware: GpuNode, gpu: GpuState) -> None:
    uuid, before = gpu.board.uuid, gpu.compute_mode
    if before is None:
        section.note(Outcome.NOT_HERE, "compute mode", "cannot be set on this GPU now")
        return
    try:
        await section.check("compute mode", lambda: hardware.set_compute_mode(uuid, "ExclusiveProcess"))
    finally:
        await section.check("compute mode, back", lambda: hardware.set_compute_mode(uuid, before))


async def _time_slice(section: Section, hardware: GpuNode, gpu: GpuState) -> None:
    uuid = gpu.board.uuid
    before = await section.check("time slice", lambda: hardware.time_slice(uuid), interval_text, is_here=bool)
    try:
        for interval in Interval:
            await section.check(f"time slice {interval}", partial(_set_time_slice, hardware, uuid, interval))
    finally:
        await section.check("time slice, back", partial(_set_time_slice, hardware, uuid, before or Interval.DEFAULT))


async def _set_time_slice(hardware: GpuNode, uuid: str, interval: Interval) -> str:
    await hardware.set_time_slice(uuid, interval)
    now = await hardware.time_slice(uuid)
    if now is None:
        return UNREADABLE
    if now is not interval:
        raise SettingNotAppliedError(
            f"nvidia-smi said that it set the time slice to {interval}, but lists {now}", gpu=uuid
        )
    return "set, and listed so"


async def _mps(
    section: Section, hardware: GpuNode, cuda: Cuda, gpu: GpuState, whole: CudaUse | None, *, home: Path
) -> None:
    uuid = gpu.board.uuid
    directory = home / "selftest"
    limits = MpsLimits(threads=_MPS_THREADS, memory_mib={uuid: _MPS_LIMIT_MIB})
    setup = MpsSetup(directory=directory, gpus=(uuid,), limits=limits)
    try:
        await section.check(
            "MPS daemon, started", lambda: hardware.start_mps(setup), lambda change: _mps_text(change.now, limits)
        )
        await section.check(
            "MPS daemon, adopted", lambda: hardware.start_mps(setup), lambda change: _mps_text(change.now, limits)
        )
        if whole:
            await _mps_client(section, cuda, uuid, whole, directory)
    finally:
        await section.check("MPS daemon, ended", lambda: hardware.quit_mps(directory, grace=5), lambda _: "")


async def _mps_client(section: Section, cuda: Cuda, uuid: str, whole: CudaUse, directory: Path) -> None:
    use = await section.check(
        "MPS, client", lambda: cuda.use(uuid, mib=2 * _MPS_LIMIT_MIB, mps=directory), witness.describe
    )
    if use:
        witness.judge_memory(section, "MPS memory limit holds", use, _MPS_LIMIT_MIB)
        witness.judge_threads(section, "MPS threads limit holds", use, whole, _MPS_THREADS)


def _mps_text(daemon: MpsDaemon | None, limits: MpsLimits) -> str:
    if daemon is None:
        return "none"
    printed = ", ".join(f"{echo.mib:g} MiB" for echo in daemon.memory.values()) or "not printed by this driver"
    (wanted,) = limits.memory_mib.values()
    return f"pid {daemon.pid}, threads {daemon.threads}%, memory limit {printed} (set: {wanted} MiB)"


async def _memory_limit(section: Section, hardware: GpuNode, cuda: Cuda, gpu: GpuState, cgroups: Path) -> None:
    uuid = gpu.board.uuid
    cgroup = cgroups / "gpusharing-selftest"
    try:
        obstacles = (await hardware.memory_wall(uuid)).obstacles
        if in_the_way := [why for obstacle, why in obstacles.items() if obstacle in _IN_THE_WAY]:
            section.note(Outcome.NOT_HERE, "memory limit", "; ".join(in_the_way))
            return
        cgroup.mkdir()
    except (HardwareError, OSError) as error:
        section.note(Outcome.FAILED, "memory limit", str(error))
        return
    try:
        limit = MemoryLimit(guaranteed=_WALL_MIB * 1024**2, most=_WALL_MIB * 1024**2)
        was_set = await section.check("memory limit", lambda: hardware.set_memory_limit(uuid, cgroup, limit))
        await section.check("memory used", lambda: hardware.memory_use(uuid, cgroup))
        if was_set:
            use = await section.check(
                "memory limit, client", lambda: cuda.use(uuid, mib=2 * _WALL_MIB, cgroup=cgroup), witness.describe
            )
            if use:
                witness.judge_memory(section, "memory limit holds", use, _WALL_MIB)
    finally:
        await section.check("memory limit, back", lambda: hardware.set_memory_limit(uuid, cgroup, None))
        cgroup.rmdir()


async def _mig(section: Section, hardware: GpuNode, cuda: Cuda, gpu: GpuState) -> None:
    uuid, mode, support = gpu.board.uuid, gpu.mig_mode, gpu.board.mig
    if mode is None or support is None:
        section.note(Outcome.NOT_HERE, "MIG", "this GPU has none")
        return
    if support.switch_resets_gpu and not mode.current:
        section.note(Outcome.NOT_HERE, "MIG", "is off, and switching it on would reset this GPU: do that by hand first")
        return
    try:
        await section.check("MIG mode", lambda: hardware.set_mig_mode(uuid, enabled=True))
        await _mig_instance(section, hardware, cuda, uuid)
    finally:
        await section.check("MIG mode, back", lambda: hardware.set_mig_mode(uuid, enabled=mode.current))


async def _mig_instance(section: Section, hardware: GpuNode, cuda: Cuda, uuid: str) -> None:
    """The smallest one. Drivers before R550 tell only now which there are."""
    inventory = await section.check("inventory with MIG mode on", hardware.inventory, lambda _: "")
    support = next((gpu.board.mig for gpu in inventory.gpus if gpu.board.uuid == uuid), None) if inventory else None
    if support is None or not support.profiles:
        section.note(Outcome.FAILED, "MIG instance", "the driver reports no profiles")
        return
    smallest = min(support.profiles, key=lambda profile: profile.memory_mib)
    place = MigPlace(smallest.id, smallest.starts[0])
    try:
        made = await section.check(f"MIG instance {smallest.name}", lambda: hardware.create_mig_instance(uuid, place))
        await section.check("MIG instance, found again", lambda: hardware.create_mig_instance(uuid, place))
        if made and made.now:
            await _device_nodes(section, hardware, uuid, made.now)
            await _mig_client(section, cuda, made.now, smallest.memory_mib)
    finally:
        await section.check("MIG instance, destroyed", lambda: hardware.destroy_mig_instance(uuid, place))
        await section.check("MIG instance, gone", lambda: hardware.destroy_mig_instance(uuid, place))


async def _mig_client(section: Section, cuda: Cuda, instance: GpuInstance, memory_mib: int) -> None:
    mig_uuid = str(instance.uuid)
    use = await section.check("MIG instance, client", lambda: cuda.use(mig_uuid, mib=_SOME_MIB), witness.describe)
    if use:
        witness.judge_instance(section, "MIG instance holds", use, memory_mib)


async def _device_nodes(section: Section, hardware: GpuNode, uuid: str, instance: GpuInstance) -> None:
    await section.check(
        "MIG device nodes",
        lambda: hardware.mig_device_nodes(uuid, instance),
        lambda change: ", ".join(
            f"{node.path} {node.major}:{node.minor}{'' if node in change.found else ' (made)'}" for node in change.now
        ),
    )
