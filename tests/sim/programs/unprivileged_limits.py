"""Sets the memory limits of a directory as root, and again and reads them as an ordinary user."""

from __future__ import annotations

import json
import os
import tempfile

import pynvml as nvml


def main() -> None:
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        cgroup = os.fsencode(directory)
        nvml.nvmlDeviceSetMemoryLimits_v1(gpu, nvml.c_nvmlSetMemoryLimits_v1_t(cgroup, 1, 2))
        os.seteuid(65534)
        code = 0
        try:
            nvml.nvmlDeviceSetMemoryLimits_v1(gpu, nvml.c_nvmlSetMemoryLimits_v1_t(cgroup, 0, 1))
        except nvml.NVMLError as error:
            code = error.value
        limits = nvml.c_nvmlGetMemoryLimits_v1_t(cgroup)
        nvml.nvmlDeviceGetMemoryLimits_v1(gpu, limits)
        os.seteuid(0)
    print(json.dumps({"set": code, "get": [limits.softLimit, limits.hardLimit, limits.currentUsed]}))


main()
