"""Initialises NVML, forks, and works in both processes at once; prints the child's exit code."""

from __future__ import annotations

import json
import os

import pynvml as nvml


def work() -> None:
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    for _ in range(1000):
        nvml.nvmlDeviceGetMemoryInfo(gpu)


def main() -> None:
    nvml.nvmlInit()
    child = os.fork()
    work()
    if child == 0:
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(json.dumps(os.waitstatus_to_exitcode(status)))


main()
