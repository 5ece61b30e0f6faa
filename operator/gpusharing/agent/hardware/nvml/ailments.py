"""What is wrong with a GPU that answers."""

from typing import Final

import pynvml

from gpusharing.agent.hardware.facts import Ailment
from gpusharing.agent.hardware.nvml.session import Device, typed

_RECOVERY: Final = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
_UNKNOWN: Final = {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT}
_DRAIN: Final = {pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P, pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET}
_RESET: Final = {pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET, pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET}


def of_memory(gpu: Device) -> tuple[Ailment, ...]:
    _, _, pending, failed = gpu.ask(pynvml.nvmlDeviceGetRemappedRows, gpu.handle)
    found = {Ailment.ROW_REMAP_PENDING: pending, Ailment.ROW_REMAP_FAILED: failed}
    return tuple(ailment for ailment, is_so in found.items() if is_so)


def wanted_recovery(gpu: Device) -> tuple[Ailment, ...]:
    """Drivers tell it from R570 on."""
    (value,) = gpu.ask(pynvml.nvmlDeviceGetFieldValues, gpu.handle, [_RECOVERY])
    if value.nvmlReturn in _UNKNOWN:
        return ()
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise typed(value.nvmlReturn, pynvml.nvmlDeviceGetFieldValues.__name__, gpu=gpu.uuid)
    action = value.value.uiVal
    if action == pynvml.NVML_GPU_RECOVERY_ACTION_NONE:
        return ()
    if action in _RESET:
        return (Ailment.RESET_NEEDED,)
    # Of what this binding does not know, a reboot is the one thing that is sure to be enough.
    return (Ailment.DRAIN_NEEDED if action in _DRAIN else Ailment.REBOOT_NEEDED,)
