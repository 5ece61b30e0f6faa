"""Makes a cgroup with a memory limit, enters it, and prints what NVML says of the first GPU's memory: LIMIT.

Before, inside, inside to the first version of the call, and after it has left.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pynvml as nvml

ROOT = Path("/sys/fs/cgroup")


def enter(cgroup: Path) -> None:
    (cgroup / "cgroup.procs").write_text("0")


def print_memory(gpu: object) -> None:
    memory = nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)
    print(memory.total, memory.reserved, memory.free, memory.used)


def main() -> None:
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    before = Path("/proc/self/cgroup").read_text().splitlines()[-1].removeprefix("0::/")
    cgroup = ROOT / f"gpusharing-test-{os.getpid()}"
    cgroup.mkdir()
    try:
        print_memory(gpu)
        limits = nvml.c_nvmlSetMemoryLimits_v1_t(os.fsencode(cgroup), 0, int(sys.argv[1]))
        nvml.nvmlDeviceSetMemoryLimits_v1(gpu, limits)
        enter(cgroup)
        print_memory(gpu)
        memory = nvml.nvmlDeviceGetMemoryInfo(gpu)
        print(memory.total, memory.free, memory.used)
        enter(ROOT / before)
        print_memory(gpu)
    finally:
        enter(ROOT / before)
        cgroup.rmdir()


main()
