"""Who uses a GPU."""

from typing import Any, Final

import pynvml

from gpusharing.nvidia.facts import GpuProcess, ProcessKind
from gpusharing.nvidia.nvml import names
from gpusharing.nvidia.nvml.session import Device

_LISTS: Final = {
    ProcessKind.COMPUTE: pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    ProcessKind.GRAPHICS: pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    ProcessKind.MPS_CLIENT: pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
}


def read(gpu: Device) -> tuple[GpuProcess, ...]:
    """On one that is cut, the driver lists those of all instances, to root."""
    return tuple(_process(entry, kind) for kind, list_all in _LISTS.items() for entry in gpu.ask(list_all, gpu.handle))


def _process(entry: Any, kind: ProcessKind) -> GpuProcess:
    return GpuProcess(
        pid=entry.pid,
        kind=kind,
        memory=entry.usedGpuMemory,
        gpu_instance=names.instance(entry.gpuInstanceId),
        compute_instance=names.instance(entry.computeInstanceId),
    )
