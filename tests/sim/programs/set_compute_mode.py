"""Sets the compute mode of the first GPU and prints the error, if any."""

from __future__ import annotations

import json
import sys

import pynvml as nvml


def main() -> None:
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    try:
        nvml.nvmlDeviceSetComputeMode(gpu, int(sys.argv[1]))
    except nvml.NVMLError as error:
        print(json.dumps(error.value))
    else:
        print(json.dumps(nvml.NVML_SUCCESS))


main()
