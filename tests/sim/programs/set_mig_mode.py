"""Sets the MIG mode of a GPU, by its index, and prints the activation status: INDEX MODE."""

from __future__ import annotations

import json
import sys

import pynvml as nvml

nvml.nvmlInit()
gpu = nvml.nvmlDeviceGetHandleByIndex(int(sys.argv[1]))
print(json.dumps(nvml.nvmlDeviceSetMigMode(gpu, int(sys.argv[2]))))
