"""Who may use a GPU at the same time."""

import pynvml

from gpusharing.nvidia.errors import InvalidArgumentError, NotSupportedError, SettingNotAppliedError
from gpusharing.nvidia.facts import Change
from gpusharing.nvidia.nvml import mig_mode, names
from gpusharing.nvidia.nvml.session import Device


def read(gpu: Device) -> str:
    try:
        number = gpu.ask(pynvml.nvmlDeviceGetComputeMode, gpu.handle)
    except InvalidArgumentError:
        # Since R610; before, it is not supported.
        if mig_mode.is_on(gpu):
            raise NotSupportedError("with MIG mode on, a GPU has no compute mode of its own", gpu=gpu.uuid) from None
        raise
    if number not in names.COMPUTE_MODES:
        raise NotSupportedError(f"compute mode {number} is none of those that are known here", gpu=gpu.uuid)
    return names.COMPUTE_MODES[number]


def put(gpu: Device, mode: str) -> Change[str]:
    found = read(gpu)
    if found != mode:
        gpu.change(pynvml.nvmlDeviceSetComputeMode, gpu.handle, names.NUMBERS_OF_COMPUTE_MODES[mode])
    now = read(gpu)
    if now != mode:
        raise SettingNotAppliedError(
            f"the driver said that the compute mode was set to {mode}, but it is {now}", gpu=gpu.uuid
        )
    return Change(found, now)
