"""What is wrong with a GPU's memory."""

import pynvml

from gpusharing.agent.hardware.facts import Ailment
from gpusharing.agent.hardware.nvml.session import Device


def read(gpu: Device) -> tuple[Ailment, ...]:
    _, _, pending, failed = gpu.ask(pynvml.nvmlDeviceGetRemappedRows, gpu.handle)
    found = {Ailment.ROW_REMAP_PENDING: pending, Ailment.ROW_REMAP_FAILED: failed}
    return tuple(ailment for ailment, is_so in found.items() if is_so)
