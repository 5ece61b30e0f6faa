"""The state of a simulated node as it lies in the shared file.

This is its only definition: `header` turns it into the C header. All settings that C code acts on are here, so that
the C library has no table of models and decides nothing.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Annotated, Any, TypeVar, get_type_hints

MAGIC = int.from_bytes(b"GPUSHSIM", "little")

S = TypeVar("S", bound=ctypes.Structure)

U32 = Annotated[int, ctypes.c_uint32]
I32 = Annotated[int, ctypes.c_int32]
U64 = Annotated[int, ctypes.c_uint64]
# As long as NVML's own buffers, so that nothing is ever cut.
Text = Annotated[bytes, ctypes.c_char * 96]


class ComputeMode(IntEnum):
    """NVML's numbers; 1 was EXCLUSIVE_THREAD, which drivers no longer have."""

    DEFAULT = 0
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


class Timeslice(IntEnum):
    """The numbers of `nvidia-smi compute-policy --set-timeslice`."""

    DEFAULT = 0
    SHORT = 1
    MEDIUM = 2
    LONG = 3


class ProcessKind(IntEnum):
    """By which of NVML's three lists a process is reported."""

    COMPUTE = 0
    GRAPHICS = 1
    MPS_CLIENT = 2


def structure(cls: type[S]) -> type[S]:
    """Give a ctypes structure the fields that its annotations name."""
    # ctypes takes `_fields_` late only when assigned to the finished class.
    cls._fields_ = fields(cls)
    return cls


def fields(cls: type[ctypes.Structure]) -> list[tuple[str, Any]]:
    hints = get_type_hints(cls, include_extras=True)
    return [(name, hints[name].__metadata__[0]) for name in cls.__annotations__]


@structure
class ProcessState(ctypes.Structure):
    """A slot for a process; free while `pid` is 0.

    `pid` is written last and cleared first: one store decides, so a writer killed in between leaves no half a process.
    """

    pid: U32
    kind: U32
    memory: U64


@structure
class GpuState(ctypes.Structure):
    uuid: Text
    name: Text
    serial: Text
    brand: U32
    architecture: U32
    compute_capability_major: I32
    compute_capability_minor: I32
    minor: U32
    pci_domain: U32
    pci_bus: U32
    pci_device: U32
    pci_device_id: U32
    pci_subsystem_id: U32
    memory: U64
    memory_reserved: U64
    persistence_mode: U32
    virtualization_mode: U32
    addressing_mode: U32
    compute_mode: U32
    timeslice_supported: U32
    timeslice: U32
    mig_capable: U32
    mig_mode_current: U32
    mig_mode_pending: U32
    # More than CUDA's limit of MPS clients, so that a test can go beyond it.
    processes: Annotated[ctypes.Array[ProcessState], ProcessState * 128]


@structure
class NodeState(ctypes.Structure):
    magic: U64
    layout: U32
    gpu_count: U32
    driver_version: Text
    nvml_version: Text
    cuda_driver_version: I32
    # As many as NVIDIA numbers MIG capabilities for.
    gpus: Annotated[ctypes.Array[GpuState], GpuState * 32]
