"""An NVML client as ours: prints what unmodified nvidia-ml-py reports. With an argument, loads that library before."""

from __future__ import annotations

import ctypes
import json
import sys

import pynvml as nvml


def describe(index: int) -> dict[str, object]:
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    pci = nvml.nvmlDeviceGetPciInfo(gpu)
    memory = nvml.nvmlDeviceGetMemoryInfo(gpu)
    memory_v2 = nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)
    uuid = nvml.nvmlDeviceGetUUID(gpu)
    return {
        "index": nvml.nvmlDeviceGetIndex(gpu),
        "index by uuid": nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByUUID(uuid)),
        "index by bus id": nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByPciBusId(pci.busId)),
        "uuid": uuid,
        "name": nvml.nvmlDeviceGetName(gpu),
        "serial": nvml.nvmlDeviceGetSerial(gpu),
        "brand": nvml.nvmlDeviceGetBrand(gpu),
        "architecture": nvml.nvmlDeviceGetArchitecture(gpu),
        "compute capability": nvml.nvmlDeviceGetCudaComputeCapability(gpu),
        "minor": nvml.nvmlDeviceGetMinorNumber(gpu),
        "bus id": pci.busId,
        "legacy bus id": pci.busIdLegacy,
        "pci": [pci.domain, pci.bus, pci.device, pci.pciDeviceId, pci.pciSubSystemId],
        "memory": [memory.total, memory.free, memory.used],
        "memory v2": [memory_v2.total, memory_v2.reserved, memory_v2.free, memory_v2.used],
        "compute mode": nvml.nvmlDeviceGetComputeMode(gpu),
        "persistence mode": nvml.nvmlDeviceGetPersistenceMode(gpu),
        "virtualization mode": nvml.nvmlDeviceGetVirtualizationMode(gpu),
        "addressing mode": nvml.nvmlDeviceGetAddressingMode(gpu),
        "compute": processes(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)),
        "graphics": processes(nvml.nvmlDeviceGetGraphicsRunningProcesses(gpu)),
        "mps": processes(nvml.nvmlDeviceGetMPSComputeRunningProcesses(gpu)),
    }


def processes(infos: list[nvml.nvmlFriendlyObject]) -> list[list[int]]:
    return [[info.pid, info.usedGpuMemory, info.gpuInstanceId, info.computeInstanceId] for info in infos]


def main() -> None:
    if len(sys.argv) > 1:
        ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
    nvml.nvmlInit()
    report = {
        "driver": nvml.nvmlSystemGetDriverVersion(),
        "nvml": nvml.nvmlSystemGetNVMLVersion(),
        "cuda": [nvml.nvmlSystemGetCudaDriverVersion(), nvml.nvmlSystemGetCudaDriverVersion_v2()],
        "gpus": [describe(index) for index in range(nvml.nvmlDeviceGetCount())],
    }
    nvml.nvmlShutdown()
    print(json.dumps(report))


main()
