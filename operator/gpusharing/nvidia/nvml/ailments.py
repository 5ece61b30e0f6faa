"""What is wrong with a GPU that answers."""

from typing import Final

import pynvml

from gpusharing.nvidia.facts import Ailment
from gpusharing.nvidia.nvml.session import Device, typed

_RECOVERY: Final = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
_UNKNOWN: Final = {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT}
_NONE: Final = pynvml.NVML_GPU_RECOVERY_ACTION_NONE
_IMEX: Final = pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN
_DRAIN: Final = {pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P, pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET}
_RESET: Final = {pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET, pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET}


def of_memory(gpu: Device) -> tuple[Ailment, ...]:
    _, _, pending, failed = gpu.ask(pynvml.nvmlDeviceGetRemappedRows, gpu.handle)
    found = {Ailment.ROW_REMAP_PENDING: pending, Ailment.ROW_REMAP_FAILED: failed}
    return tuple(ailment for ailment, is_so in found.items() if is_so)


def needs_recovery(gpu: Device) -> bool | None:
    """Whether the driver says that the GPU itself has to be recovered. None: it does not say."""
    action = _recovery_action(gpu)
    return None if action is None else action not in {_NONE, _IMEX}


def needed_recovery(gpu: Device) -> tuple[Ailment, ...]:
    action = _recovery_action(gpu)
    if action in {None, _NONE}:
        return ()
    if action == _IMEX:
        return (Ailment.IMEX_RECOVERY_NEEDED,)
    if action in _RESET:
        return (Ailment.RESET_NEEDED,)
    # Of what this binding does not know, a reboot is the one thing that is sure to be enough.
    return (Ailment.DRAIN_NEEDED if action in _DRAIN else Ailment.REBOOT_NEEDED,)


def _recovery_action(gpu: Device) -> int | None:
    """Drivers report it from R565 on."""
    (value,) = gpu.ask(pynvml.nvmlDeviceGetFieldValues, gpu.handle, [_RECOVERY])
    if value.nvmlReturn in _UNKNOWN:
        return None
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise typed(value.nvmlReturn, pynvml.nvmlDeviceGetFieldValues.__name__, gpu=gpu.uuid)
    action: int = value.value.uiVal
    return action
