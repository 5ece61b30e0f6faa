"""What a GPU is: what the driver says of it, and what the kernel knows of its place."""

from pathlib import Path
from typing import Final

import pynvml

from gpusharing.agent.hardware import sysfs
from gpusharing.agent.hardware.errors import NotSupportedError
from gpusharing.agent.hardware.nvml import mig_profiles, names
from gpusharing.agent.hardware.nvml.notes import Notes
from gpusharing.agent.hardware.nvml.session import Device
from gpusharing.core.devices.gpu import Board, MigSupport

MIB: Final = 1024 * 1024


def read(gpu: Device, *, driver: str, cuda: tuple[int, int], sysfs_root: Path, notes: Notes) -> Board:
    bus_id = sysfs.normalized_bus_id(gpu.ask(pynvml.nvmlDeviceGetPciInfo, gpu.handle).busId)
    capability = gpu.ask(pynvml.nvmlDeviceGetCudaComputeCapability, gpu.handle)
    architecture = gpu.ask(pynvml.nvmlDeviceGetArchitecture, gpu.handle)
    return Board(
        uuid=gpu.uuid,
        minor=minor(gpu),
        product_name=gpu.ask(pynvml.nvmlDeviceGetName, gpu.handle),
        brand=names.BRANDS.get(gpu.ask(pynvml.nvmlDeviceGetBrand, gpu.handle), names.UNKNOWN),
        architecture=names.ARCHITECTURES.get(architecture, names.UNKNOWN),
        memory_mib=gpu.ask(pynvml.nvmlDeviceGetMemoryInfo, gpu.handle).total // MIB,
        compute_capability=(capability[0], capability[1]),
        driver_version=driver,
        cuda_driver_version=cuda,
        pci_bus_id=bus_id,
        pcie_root=sysfs.pcie_root(sysfs_root, bus_id),
        numa_node=sysfs.numa_node(sysfs_root, bus_id),
        addressing_mode=notes.attempt("addressing mode", lambda: _addressing_mode(gpu), otherwise=None),
        mig=_mig_support(gpu, architecture, notes),
    )


def minor(gpu: Device) -> int:
    """The N of /dev/nvidiaN."""
    number: int = gpu.ask(pynvml.nvmlDeviceGetMinorNumber, gpu.handle)
    return number


def _addressing_mode(gpu: Device) -> str | None:
    return names.ADDRESSING_MODES.get(gpu.ask(pynvml.nvmlDeviceGetAddressingMode, gpu.handle))


def _mig_support(gpu: Device, architecture: int, notes: Notes) -> MigSupport | None:
    try:
        gpu.ask(pynvml.nvmlDeviceGetMigMode, gpu.handle)
    except NotSupportedError:
        return None
    return MigSupport(
        profiles=notes.attempt("MIG profiles", lambda: mig_profiles.read(gpu), otherwise=()),
        switch_resets_gpu=mig_switch_resets(architecture),
    )


def mig_switch_resets(architecture: int) -> bool:
    return bool(architecture <= pynvml.NVML_DEVICE_ARCH_AMPERE)
