"""Who uses a GPU, and how much."""

from collections.abc import Mapping
from typing import Any, Final

import pynvml

from gpusharing.nvidia.errors import NotFoundError, NotSupportedError
from gpusharing.nvidia.facts import GpuProcess, ProcessKind
from gpusharing.nvidia.nvml import names
from gpusharing.nvidia.nvml.session import Device

_LISTS: Final = {
    ProcessKind.COMPUTE: pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    ProcessKind.GRAPHICS: pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    ProcessKind.MPS_CLIENT: pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
}
_ALL_OF_IT: Final = 100


def read(gpu: Device) -> tuple[GpuProcess, ...]:
    """On one that is cut, the driver lists those of all instances, to root."""
    return tuple(_process(entry, kind) for kind, list_all in _LISTS.items() for entry in gpu.ask(list_all, gpu.handle))


def utilization(gpu: Device, since: int) -> Mapping[int, float] | None:
    """By process, which part of the GPU's time it has used since then, in microseconds of the clock. One that has used
    none is not there. None where the driver does not know: with MIG, and of virtual GPUs."""
    try:
        samples = gpu.ask(pynvml.nvmlDeviceGetProcessUtilization, gpu.handle, since)
    except NotFoundError:
        return {}
    except NotSupportedError:
        return None
    # Drivers have samples of processes that have ended, with any number.
    valid = [sample for sample in samples if sample.pid and sample.smUtil <= _ALL_OF_IT]
    return {sample.pid: sample.smUtil / _ALL_OF_IT for sample in sorted(valid, key=lambda sample: sample.timeStamp)}


def _process(entry: Any, kind: ProcessKind) -> GpuProcess:
    return GpuProcess(
        pid=entry.pid,
        kind=kind,
        memory=entry.usedGpuMemory,
        gpu_instance=names.instance(entry.gpuInstanceId),
        compute_instance=names.instance(entry.computeInstanceId),
    )
