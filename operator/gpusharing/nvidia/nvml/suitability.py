"""What a GPU can be used for."""

from typing import Final

import pynvml

from gpusharing.nvidia.errors import NotSupportedError
from gpusharing.nvidia.nvml import mig_mode
from gpusharing.nvidia.nvml.session import Device

_FIRST_WITH_MPS: Final = (7, 0)


def require_mps(gpu: Device) -> None:
    """Before Volta MPS knows neither limits nor clients of several users, and its servers end as soon as they start."""
    if gpu.ask(pynvml.nvmlDeviceIsMigDeviceHandle, gpu.handle).value or mig_mode.is_on(gpu):
        raise NotSupportedError("MPS on a GPU with MIG mode on is not supported here", gpu=gpu.uuid)
    major, minor = gpu.ask(pynvml.nvmlDeviceGetCudaComputeCapability, gpu.handle)
    if (major, minor) < _FIRST_WITH_MPS:
        raise NotSupportedError(f"MPS needs compute capability 7.0, and it has {major}.{minor}", gpu=gpu.uuid)
