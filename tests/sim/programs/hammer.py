"""Writes and reads through the library without end, to be killed."""

from __future__ import annotations

import pynvml as nvml


def main() -> None:
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    print("ready", flush=True)
    while True:
        for mode in (nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, nvml.NVML_COMPUTEMODE_DEFAULT):
            nvml.nvmlDeviceSetComputeMode(gpu, mode)
            nvml.nvmlDeviceGetComputeRunningProcesses(gpu)


main()
