"""The numbers of device nodes; the C library has them from here."""

from __future__ import annotations

from enum import IntEnum


class Major(IntEnum):
    NVIDIA = 195
    # Given by the kernel when the module is loaded: other nodes have others, so programs have to look.
    UVM = 234
    CAPABILITIES = 236


class Capability(IntEnum):
    """How NVIDIA numbers the capabilities of MIG: 32 GPUs with 15 GPU instances with 8 compute instances each."""

    CONFIG = 1
    MONITOR = 2
    FIRST_INSTANCE = 3
    PER_GPU_INSTANCE = 9
    PER_GPU = 135


def gpu_instance_capability(gpu_minor: int, gpu_instance: int) -> int:
    return Capability.FIRST_INSTANCE + gpu_minor * Capability.PER_GPU + gpu_instance * Capability.PER_GPU_INSTANCE


def compute_instance_capability(gpu_minor: int, gpu_instance: int, compute_instance: int) -> int:
    return gpu_instance_capability(gpu_minor, gpu_instance) + 1 + compute_instance
