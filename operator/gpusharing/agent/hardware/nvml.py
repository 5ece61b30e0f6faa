"""The driver's library: one session, one thread. A call that hangs in the driver blocks only that thread."""

import asyncio
import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import pynvml
import structlog

from gpusharing.agent.hardware import names, sysfs
from gpusharing.agent.hardware.errors import HardwareError, NotSupportedError
from gpusharing.core.inventory import Board

T = TypeVar("T")

log = structlog.get_logger(__name__)

_MIB: Final = 1024 * 1024


class Nvml:
    def __init__(self, library: Path, *, sysfs_root: Path) -> None:
        self._library = library
        self._sysfs = sysfs_root
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nvml")

    async def open(self) -> None:
        await self._call(self._open)

    async def close(self) -> None:
        await self._call(pynvml.nvmlShutdown)
        self._thread.shutdown()

    async def boards(self) -> list[Board]:
        return await self._call(self._boards)

    async def compute_mode(self, uuid: str) -> str:
        number = await self._call(lambda: pynvml.nvmlDeviceGetComputeMode(_handle(uuid)))
        return names.COMPUTE_MODES[number]

    async def set_compute_mode(self, uuid: str, mode: str) -> None:
        number = {name: number for number, name in names.COMPUTE_MODES.items()}[mode]
        await self._call(lambda: pynvml.nvmlDeviceSetComputeMode(_handle(uuid), number))

    async def _call(self, function: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        except pynvml.NVMLError as error:
            kind = NotSupportedError if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED else HardwareError
            raise kind(f"NVML: {error}") from error

    def _open(self) -> None:
        # pynvml loads the library by its bare name; a library with that name that is loaded already is the one it gets.
        ctypes.CDLL(str(self._library), mode=ctypes.RTLD_GLOBAL)
        # A node whose GPUs have all fallen off the bus still has an agent that says so.
        pynvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)

    def _boards(self) -> list[Board]:
        driver = pynvml.nvmlSystemGetDriverVersion()
        cuda = pynvml.nvmlSystemGetCudaDriverVersion()
        boards = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                boards.append(self._board(handle, driver, (cuda // 1000, cuda % 1000 // 10)))
            except pynvml.NVMLError as error:
                # One lost GPU must not take its neighbours with it.
                log.warning("GPU left out, it does not answer", index=index, error=str(error))
        return boards

    def _board(self, handle: Any, driver: str, cuda: tuple[int, int]) -> Board:
        bus_id = sysfs.normalized_bus_id(pynvml.nvmlDeviceGetPciInfo(handle).busId)
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        return Board(
            uuid=pynvml.nvmlDeviceGetUUID(handle),
            minor=pynvml.nvmlDeviceGetMinorNumber(handle),
            product_name=pynvml.nvmlDeviceGetName(handle),
            brand=names.BRANDS.get(pynvml.nvmlDeviceGetBrand(handle), names.UNKNOWN),
            architecture=names.ARCHITECTURES.get(pynvml.nvmlDeviceGetArchitecture(handle), names.UNKNOWN),
            memory_mib=pynvml.nvmlDeviceGetMemoryInfo(handle).total // _MIB,
            compute_capability=(major, minor),
            driver_version=driver,
            cuda_driver_version=cuda,
            pci_bus_id=bus_id,
            pcie_root=sysfs.pcie_root(self._sysfs, bus_id),
            numa_node=sysfs.numa_node(self._sysfs, bus_id),
        )


def _handle(uuid: str) -> Any:
    # Never kept: a handle does not survive a reset, and one that is looked up cannot be stale.
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)
