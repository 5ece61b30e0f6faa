"""The GPUs of this node: everything that the agent asks them or tells them."""

from pathlib import Path

from gpusharing.agent.hardware.driver_root import DriverRoot
from gpusharing.agent.hardware.errors import NotSupportedError
from gpusharing.agent.hardware.nvml import Nvml
from gpusharing.agent.hardware.smi import NvidiaSmi
from gpusharing.api.sharing import Interval
from gpusharing.core.inventory import Board


class Hardware:
    def __init__(self, driver_root: Path, *, sysfs_root: Path) -> None:
        root = DriverRoot(driver_root)
        self._nvml = Nvml(root.nvml_library(), sysfs_root=sysfs_root)
        self._smi = NvidiaSmi(root.nvidia_smi(), root.nvml_library())

    async def open(self) -> None:
        await self._nvml.open()

    async def close(self) -> None:
        await self._nvml.close()

    async def boards(self) -> list[Board]:
        return await self._nvml.boards()

    async def compute_mode(self, uuid: str) -> str | None:
        """None where it cannot be set."""
        try:
            return await self._nvml.compute_mode(uuid)
        except NotSupportedError:
            return None

    async def set_compute_mode(self, uuid: str, mode: str) -> None:
        await self._nvml.set_compute_mode(uuid, mode)

    async def time_slice(self, uuid: str) -> Interval | None:
        """None where the GPU has no such setting."""
        try:
            return await self._smi.time_slice(uuid)
        except NotSupportedError:
            return None

    async def set_time_slice(self, uuid: str, interval: Interval) -> None:
        await self._smi.set_time_slice(uuid, interval)
