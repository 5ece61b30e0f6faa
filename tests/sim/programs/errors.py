"""Prints which exceptions unmodified nvidia-ml-py raises, and their texts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pynvml as nvml


def error_of(call: Callable[..., object], *arguments: object) -> str:
    try:
        call(*arguments)
    except nvml.NVMLError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def main() -> None:
    report = {"before init": error_of(nvml.nvmlDeviceGetCount)}
    nvml.nvmlInit()
    h100, l4 = nvml.nvmlDeviceGetHandleByIndex(0), nvml.nvmlDeviceGetHandleByIndex(2)
    report |= {
        "index": error_of(nvml.nvmlDeviceGetHandleByIndex, 3),
        "uuid": error_of(nvml.nvmlDeviceGetHandleByUUID, "GPU-unknown"),
        "bus id": error_of(nvml.nvmlDeviceGetHandleByPciBusId, "0000:ff:00.0"),
        "no bus id": error_of(nvml.nvmlDeviceGetHandleByPciBusId, "first"),
        "mig mode": f"{nvml.nvmlDeviceGetMigMode(h100)}",
        "mig mode of an L4": error_of(nvml.nvmlDeviceGetMigMode, l4),
        "numa node": error_of(nvml.nvmlDeviceGetNumaNodeId, h100),
        "removed compute mode": error_of(nvml.nvmlDeviceSetComputeMode, h100, 1),
        "unknown compute mode": error_of(nvml.nvmlDeviceSetComputeMode, h100, 4),
        "memory version": error_of(nvml.nvmlDeviceGetMemoryInfo, h100, 0x03000028),
        "absent function": error_of(nvml.nvmlDeviceGetFanSpeed, h100),
    }
    nvml.nvmlShutdown()
    report["after shutdown"] = error_of(nvml.nvmlDeviceGetName, h100)
    report["one shutdown too many"] = error_of(nvml.nvmlShutdown)
    print(json.dumps(report))


main()
