"""The GPUs of this node, through NVIDIA's driver."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from gpusharing.api.sharing.offers import Interval
from gpusharing.nvidia import sysfs, wall_support
from gpusharing.nvidia.capabilities import Capabilities
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.driver_root import DriverRoot
from gpusharing.nvidia.driver_thread import PATIENCE, Patience
from gpusharing.nvidia.driver_threads import DriverThreads
from gpusharing.nvidia.errors import (
    DriverHungError,
    MigModePendingError,
    NotSupportedError,
    ResetRequiredError,
)
from gpusharing.nvidia.facts import (
    BrokenGpu,
    Change,
    DeviceNode,
    GpuInstance,
    GpuProcess,
    GpuState,
    Inventory,
    MigMode,
    MigPlace,
    MigState,
)
from gpusharing.nvidia.gpu_event import GpuEvent
from gpusharing.nvidia.gpu_node import GpuNode
from gpusharing.nvidia.holders import holders
from gpusharing.nvidia.memory_walls import MemoryLimit, MemoryUse, MemoryWall
from gpusharing.nvidia.mps.daemon import MpsDaemon, MpsSetup
from gpusharing.nvidia.mps.daemons import MpsDaemons
from gpusharing.nvidia.mps.directory import SHM_SIZE
from gpusharing.nvidia.nvml import (
    boards,
    compute_mode,
    creation,
    destruction,
    memory_limits,
    mig_mode,
    processes,
    suitability,
)
from gpusharing.nvidia.nvml.events import EventWatch
from gpusharing.nvidia.nvml.inventory import Count, InventoryReader, Slot
from gpusharing.nvidia.nvml.place import Place
from gpusharing.nvidia.nvml.session import Device, Session
from gpusharing.nvidia.smi import NvidiaSmi

T = TypeVar("T")


class Hardware(GpuNode):
    def __init__(
        self,
        driver_root: Path,
        *,
        sysfs_root: Path = Path("/sys"),
        proc_root: Path = Path("/proc"),
        dev_root: Path = Path("/dev"),
        specs: CdiSpecs | None = None,
        patience: Patience = PATIENCE,
        mps_shm_size: int = SHM_SIZE,
    ) -> None:
        root = DriverRoot.find(driver_root, proc=proc_root)
        self._dev = dev_root
        self._sysfs = sysfs_root
        self._cgroups = sysfs_root / wall_support.CGROUPS
        self._specs = specs or CdiSpecs(())
        self._capabilities = Capabilities(proc_root, dev_root)
        self._threads = DriverThreads(patience)
        self._session = Session(root.nvml_library(), self._threads)
        self._inventory = InventoryReader(self._session, sysfs_root=sysfs_root)
        self._events = EventWatch(self._session, sysfs_root=sysfs_root)
        self._smi = NvidiaSmi(root)
        self._mps = MpsDaemons(
            root, proc=proc_root, dev=dev_root, sysfs=sysfs_root, cgroups=self._cgroups, shm_size=mps_shm_size
        )

    async def open(self) -> None:
        await self._threads.do(self._session.open)

    async def close(self) -> None:
        if self._threads.hung() is None:
            await self._threads.do(self._session.close)
        self._threads.close()

    def hung(self) -> DriverHungError | None:
        return self._threads.hung()

    async def inventory(self) -> Inventory:
        count = await self._threads.do(self._inventory.count)
        found = await asyncio.gather(*(self._gpu_state(slot, count) for slot in count.slots))
        return self._inventory.finish(count, found)

    async def compute_mode(self, uuid: str) -> str | None:
        try:
            return await self._ask(uuid, compute_mode.read)
        except NotSupportedError:
            return None

    async def set_compute_mode(self, uuid: str, mode: str) -> Change[str]:
        return await self._change(uuid, lambda gpu: compute_mode.put(gpu, mode))

    async def time_slice(self, uuid: str) -> Interval | None:
        return await self._smi.time_slice(uuid)

    async def set_time_slice(self, uuid: str, interval: Interval) -> None:
        await self._smi.set_time_slice(uuid, interval)

    async def mig(self, uuid: str) -> MigState | None:
        return await self._ask(uuid, mig_mode.read_state)

    async def set_mig_mode(self, uuid: str, *, enabled: bool) -> Change[MigMode]:
        state = await self.mig(uuid)
        if state and state.switch_resets_gpu and state.mode.current != enabled and sysfs.has_nvswitch(self._sysfs):
            raise ResetRequiredError(
                "MIG mode cannot change without a reset of all GPUs on the NVSwitch",
                gpu=uuid,
                remedy=f"run nvidia-smi --mig {int(enabled)} on the node and reboot it",
            )
        try:
            return await self._change(uuid, lambda gpu: mig_mode.put(gpu, enabled=enabled))
        except MigModePendingError as error:
            device = self._dev / f"nvidia{await self._ask(uuid, boards.minor)}"
            who = ", ".join(await asyncio.to_thread(holders, device)) or "unknown programs"
            raise MigModePendingError(f"{error.problem}; {device} is open in {who}", gpu=uuid) from error

    async def create_mig_instance(self, uuid: str, place: MigPlace) -> Change[GpuInstance | None]:
        return await self._threads.do(lambda: creation.create(Place(self._session, uuid, place)), gpu=uuid)

    async def destroy_mig_instance(
        self, uuid: str, place: MigPlace, *, mig_uuid: str | None = None
    ) -> Change[GpuInstance | None]:
        return await self._threads.do(
            lambda: destruction.destroy(Place(self._session, uuid, place), mig_uuid=mig_uuid), gpu=uuid
        )

    async def mig_device_nodes(self, uuid: str, instance: GpuInstance) -> Change[tuple[DeviceNode, ...]]:
        minor = await self._ask(uuid, boards.minor)
        return await asyncio.to_thread(lambda: self._capabilities.make(self._capabilities.nodes(minor, instance)))

    async def device_node(self, uuid: str) -> DeviceNode:
        return await self._ask(uuid, lambda gpu: self._capabilities.gpu(boards.minor(gpu)))

    async def start_mps(self, setup: MpsSetup) -> Change[MpsDaemon | None]:
        for uuid in setup.gpus:
            await self._ask(uuid, suitability.require_mps)
        return await self._mps.start(setup)

    async def mps(self, directory: Path) -> MpsDaemon | None:
        return await self._mps.read(directory)

    async def mps_directories(self, home: Path) -> list[Path]:
        return await self._mps.directories(home)

    async def quit_mps(self, directory: Path, *, grace: int) -> Change[MpsDaemon | None]:
        return await self._mps.quit(directory, grace=grace)

    async def events(self) -> tuple[GpuEvent, ...]:
        return await self._threads.do(lambda: self._session.repeatable(self._events.read))

    async def set_memory_limit(self, uuid: str, cgroup: Path, limit: MemoryLimit | None) -> Change[MemoryLimit | None]:
        return await self._change(uuid, lambda gpu: memory_limits.put(gpu, cgroup, limit))

    async def memory_wall(self, uuid: str) -> MemoryWall:
        driver = await self._ask(uuid, lambda gpu: wall_support.of_driver(gpu, self._cgroups))
        node = await asyncio.to_thread(wall_support.of_node, uuid, self._cgroups, self._specs)
        return MemoryWall({**driver.obstacles, **node.obstacles})

    async def memory_use(self, uuid: str, cgroup: Path) -> MemoryUse | None:
        return await self._ask(uuid, lambda gpu: memory_limits.read(gpu, cgroup))

    async def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        return await self._ask(uuid, processes.read)

    async def utilization(self, uuid: str, *, since: float) -> Mapping[int, float] | None:
        return await self._ask(uuid, lambda gpu: processes.utilization(gpu, int(since * 1e6)))

    async def _gpu_state(self, slot: Slot, count: Count) -> GpuState | BrokenGpu:
        return await self._threads.do(lambda: self._inventory.read(slot, count), gpu=slot.uuid)

    async def _ask(self, uuid: str, question: Callable[[Device], T]) -> T:
        return await self._threads.do(
            lambda: self._session.repeatable(lambda: question(self._session.gpu(uuid))), gpu=uuid
        )

    async def _change(self, uuid: str, change: Callable[[Device], T]) -> T:
        return await self._threads.do(
            lambda: change(self._session.repeatable(lambda: self._session.gpu(uuid))), gpu=uuid
        )
