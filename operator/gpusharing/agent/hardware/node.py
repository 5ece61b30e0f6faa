"""The GPUs of this node, through NVIDIA's driver."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gpusharing.agent.cdi_specs import CdiSpecs
from gpusharing.agent.hardware import sysfs, walls
from gpusharing.agent.hardware.capabilities import Capabilities
from gpusharing.agent.hardware.driver_root import DriverRoot
from gpusharing.agent.hardware.driver_thread import PATIENCE, DriverThread, Patience
from gpusharing.agent.hardware.errors import (
    DriverHungError,
    MigModePendingError,
    NotSupportedError,
    ResetRequiredError,
)
from gpusharing.agent.hardware.facts import (
    Change,
    DeviceNode,
    GpuEvent,
    GpuInstance,
    Inventory,
    MemoryLimit,
    MemoryUse,
    MemoryWall,
    MigMode,
    MigPlace,
    MigState,
    MpsDaemon,
    MpsSetup,
)
from gpusharing.agent.hardware.holders import holders
from gpusharing.agent.hardware.mps.daemons import MpsDaemons
from gpusharing.agent.hardware.nvml import (
    boards,
    compute_mode,
    creation,
    destruction,
    memory_limits,
    mig_mode,
    mig_state,
    suitability,
)
from gpusharing.agent.hardware.nvml.events import EventWatch
from gpusharing.agent.hardware.nvml.inventory import InventoryReader
from gpusharing.agent.hardware.nvml.place import Place
from gpusharing.agent.hardware.nvml.session import Device, Session
from gpusharing.agent.hardware.protocol import GpuNode
from gpusharing.agent.hardware.smi import NvidiaSmi
from gpusharing.api.sharing.offers import Interval

T = TypeVar("T")


class Hardware(GpuNode):
    def __init__(
        self,
        driver_root: Path,
        *,
        sysfs_root: Path = Path("/sys"),
        proc_root: Path = Path("/proc"),
        dev_root: Path = Path("/dev"),
        cdi_directories: tuple[Path, ...] = (),
        patience: Patience = PATIENCE,
    ) -> None:
        root = DriverRoot(driver_root)
        self._dev = dev_root
        self._sysfs = sysfs_root
        self._cgroups = sysfs_root / walls.CGROUPS
        self._specs = CdiSpecs(cdi_directories)
        self._capabilities = Capabilities(proc_root, dev_root)
        self._thread = DriverThread(patience)
        self._session = Session(root.nvml_library(), self._thread)
        self._inventory = InventoryReader(self._session, sysfs_root=sysfs_root)
        self._events = EventWatch(self._session)
        self._smi = NvidiaSmi(root)
        self._mps = MpsDaemons(root, self._cgroups)

    async def open(self) -> None:
        await self._thread.do(self._session.open)

    async def close(self) -> None:
        if self._thread.hung() is None:
            await self._thread.do(self._session.close)
        self._thread.close()

    def hung(self) -> DriverHungError | None:
        return self._thread.hung()

    async def inventory(self) -> Inventory:
        return await self._thread.do(self._inventory.read)

    async def compute_mode(self, uuid: str) -> str | None:
        try:
            return await self._ask(uuid, compute_mode.read)
        except NotSupportedError:
            return None

    async def set_compute_mode(self, uuid: str, mode: str) -> Change[str]:
        return await self._change(uuid, lambda gpu: compute_mode.put(gpu, mode))

    async def time_slice(self, uuid: str) -> Interval | None:
        try:
            return await self._smi.time_slice(uuid)
        except NotSupportedError:
            return None

    async def set_time_slice(self, uuid: str, interval: Interval) -> Change[Interval]:
        return await self._smi.set_time_slice(uuid, interval)

    async def mig(self, uuid: str) -> MigState | None:
        return await self._ask(uuid, mig_state.read)

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
            who = ", ".join(await asyncio.to_thread(holders, device)) or "nobody who can be seen"
            raise MigModePendingError(f"{error.problem}; {device} is held by {who}", gpu=uuid) from error

    async def create_mig_instance(self, uuid: str, place: MigPlace) -> Change[GpuInstance | None]:
        return await self._thread.do(lambda: creation.create(Place(self._session, uuid, place)))

    async def destroy_mig_instance(
        self, uuid: str, place: MigPlace, *, mig_uuid: str | None = None
    ) -> Change[GpuInstance | None]:
        return await self._thread.do(lambda: destruction.destroy(Place(self._session, uuid, place), mig_uuid=mig_uuid))

    async def mig_device_nodes(self, uuid: str, instance: GpuInstance) -> Change[tuple[DeviceNode, ...]]:
        minor = await self._ask(uuid, boards.minor)
        return self._capabilities.make(self._capabilities.nodes(minor, instance))

    async def device_node(self, uuid: str) -> DeviceNode:
        return self._capabilities.gpu(await self._ask(uuid, boards.minor))

    async def start_mps(self, setup: MpsSetup) -> Change[MpsDaemon | None]:
        for uuid in setup.gpus:
            await self._ask(uuid, suitability.require_mps)
        return await self._mps.start(setup)

    async def mps(self, directory: Path) -> MpsDaemon | None:
        return await self._mps.read(directory)

    async def quit_mps(self, directory: Path, *, grace: int) -> Change[MpsDaemon | None]:
        return await self._mps.quit(directory, grace=grace)

    async def events(self) -> tuple[GpuEvent, ...]:
        return await self._thread.do(lambda: self._session.repeatable(self._events.read))

    async def set_memory_limit(self, uuid: str, cgroup: Path, limit: MemoryLimit | None) -> Change[MemoryLimit | None]:
        return await self._change(uuid, lambda gpu: memory_limits.put(gpu, cgroup, limit))

    async def memory_wall(self, uuid: str) -> MemoryWall:
        driver = await self._ask(uuid, lambda gpu: walls.of_driver(gpu, self._cgroups))
        node = walls.of_node(uuid, self._cgroups, self._specs)
        return MemoryWall({**driver.obstacles, **node.obstacles})

    async def memory_use(self, uuid: str, cgroup: Path) -> MemoryUse | None:
        return await self._ask(uuid, lambda gpu: memory_limits.read(gpu, cgroup))

    async def _ask(self, uuid: str, question: Callable[[Device], T]) -> T:
        return await self._thread.do(lambda: self._session.repeatable(lambda: question(self._session.gpu(uuid))))

    async def _change(self, uuid: str, change: Callable[[Device], T]) -> T:
        return await self._thread.do(lambda: change(self._session.repeatable(lambda: self._session.gpu(uuid))))
