"""In a mount namespace of its own: a cgroup of version 2 with this process in it, and a limit for CUDA processes.

Arguments: the node's library, a GPU's UUID, the limit in MiB, and the command of a CUDA process, whose exit codes with
the limit and with one MiB more it prints.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


class Limits(ctypes.Structure):
    _fields_ = [("nameSpace", ctypes.c_char_p), ("soft", ctypes.c_uint64), ("hard", ctypes.c_uint64)]


def set_limit(library: str, uuid: str, cgroup: Path, mib: int) -> None:
    nvml = ctypes.CDLL(library)
    device = ctypes.c_void_p()
    limits = Limits(os.fsencode(cgroup), 0, mib << 20)
    codes = [
        nvml.nvmlInit_v2(),
        nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)),
        nvml.nvmlDeviceSetMemoryLimits_v1(device, ctypes.byref(limits)),
    ]
    if any(codes):
        raise SystemExit(f"NVML: {codes}")


def main() -> None:
    library, uuid, limit, *command = sys.argv[1:]
    subprocess.run(["mount", "-t", "cgroup2", "none", MOUNT], check=True)
    cgroup = MOUNT / f"gpusharing-test-{os.getpid()}"
    inner = cgroup / "inner"
    inner.mkdir(parents=True)
    try:
        set_limit(library, uuid, cgroup, int(limit))
        (inner / "cgroup.procs").write_text("0")
        codes = [
            subprocess.run(
                [*command, f"--memory={mib}M", "--seconds=0.01"], stdout=subprocess.DEVNULL, check=False
            ).returncode
            for mib in (int(limit), int(limit) + 1)
        ]
    finally:
        (MOUNT / "cgroup.procs").write_text("0")
        inner.rmdir()
        cgroup.rmdir()
    sys.stdout.write(json.dumps(codes))


main()
