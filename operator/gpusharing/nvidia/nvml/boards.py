"""What a GPU is: what the driver says of it, and what the kernel knows of its place."""

from pathlib import Path
from typing import Final

import pynvml

from gpusharing.core.devices.gpu import Board, MigSupport
from gpusharing.nvidia import sysfs
from gpusharing.nvidia.errors import DriverTooOldError, NotSupportedError
from gpusharing.nvidia.nvml import mig_mode, mig_profiles, names
from gpusharing.nvidia.nvml.notes import Notes
from gpusharing.nvidia.nvml.session import Device, Memory

MIB: Final = 1024 * 1024


def read(gpu: Device, *, driver: str, cuda: tuple[int, int], sysfs_root: Path, notes: Notes) -> Board:
    bus_id = sysfs.normalized_bus_id(gpu.ask(pynvml.nvmlDeviceGetPciInfo, gpu.handle).busId)
    capability = gpu.ask(pynvml.nvmlDeviceGetCudaComputeCapability, gpu.handle)
    architecture = gpu.ask(pynvml.nvmlDeviceGetArchitecture, gpu.handle)
    memory = gpu.session.memory.setdefault(gpu.uuid, _memory(gpu))
    return Board(
        uuid=gpu.uuid,
        minor=minor(gpu),
        product_name=gpu.ask(pynvml.nvmlDeviceGetName, gpu.handle),
        brand=names.BRANDS.get(gpu.ask(pynvml.nvmlDeviceGetBrand, gpu.handle), names.UNKNOWN),
        architecture=names.ARCHITECTURES.get(architecture, names.UNKNOWN),
        memory_mib=memory.total,
        reserved_mib=memory.reserved,
        compute_capability=(capability[0], capability[1]),
        driver_version=driver,
        cuda_driver_version=cuda,
        pci_bus_id=bus_id,
        pcie_root=sysfs.pcie_root(sysfs_root, bus_id),
        numa_node=sysfs.numa_node(sysfs_root, bus_id),
        addressing_mode=notes.attempt("addressing mode", lambda: _addressing_mode(gpu), otherwise=None),
        mig=_mig_support(gpu, architecture, notes),
    )


def _memory(gpu: Device) -> Memory:
    try:
        found = gpu.ask(pynvml.nvmlDeviceGetMemoryInfo, gpu.handle, pynvml.nvmlMemory_v2)
    except DriverTooOldError:
        return Memory(gpu.ask(pynvml.nvmlDeviceGetMemoryInfo, gpu.handle).total // MIB, 0)
    except NotSupportedError:
        # As on boards that have none of their own, but share the CPU's.
        return Memory(0, 0)
    # Rounded up: nobody is promised what there is not.
    return Memory(found.total // MIB, -(-found.reserved // MIB))


def minor(gpu: Device) -> int:
    """The N of /dev/nvidiaN."""
    number: int = gpu.ask(pynvml.nvmlDeviceGetMinorNumber, gpu.handle)
    return number


def _addressing_mode(gpu: Device) -> str | None:
    return names.ADDRESSING_MODES.get(gpu.ask(pynvml.nvmlDeviceGetAddressingMode, gpu.handle))


def _mig_support(gpu: Device, architecture: int, notes: Notes) -> MigSupport | None:
    try:
        mig_mode.read(gpu)
    except NotSupportedError:
        return None
    return MigSupport(
        profiles=notes.attempt("MIG profiles", lambda: mig_profiles.read(gpu), otherwise=()),
        switch_resets_gpu=mig_mode.switch_resets_gpu(architecture),
    )
