"""The files of the kernel and its NVIDIA module that are about no single GPU; those of GPUs the C library writes."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

from gpusharing.sim.devices import Capability, Major, compute_instance_capability, gpu_instance_capability
from gpusharing.sim.drivers import Driver
from gpusharing.sim.quirks import Quirk

_GPUS, _GPU_INSTANCES, _COMPUTE_INSTANCES = 32, 15, 8

_MODULE = Path("sys/module/nvidia")

_DEVICES = {
    "nvidiactl": (Major.NVIDIA, 255, 0o666),
    "nvidia-modeset": (Major.NVIDIA, 254, 0o666),
    "nvidia-uvm": (Major.UVM, 0, 0o666),
    "nvidia-uvm-tools": (Major.UVM, 1, 0o666),
    f"nvidia-caps/nvidia-cap{Capability.CONFIG}": (Major.CAPABILITIES, Capability.CONFIG, 0o400),
    f"nvidia-caps/nvidia-cap{Capability.MONITOR}": (Major.CAPABILITIES, Capability.MONITOR, 0o444),
}


def write_kernel_files(proc: Path, boot_id: str) -> None:
    write(proc / "sys/kernel/random/boot_id", f"{boot_id}\n")
    write(proc / "stat", f"cpu  0 0 0 0 0 0 0 0 0 0\nbtime {int(time.time())}\n")


def load_module(directory: Path, driver: Driver, quirks: Quirk) -> None:
    """What appears with the NVIDIA module, below `proc`, `sys` and `dev`."""
    # Where csrc/driver/files.c makes what it then moves into sight.
    (directory / ".driver").mkdir(exist_ok=True)
    (directory / _MODULE).mkdir(parents=True, exist_ok=True)
    proc = directory / "proc"
    module = proc / "driver/nvidia"
    (module / "gpus").mkdir(parents=True, exist_ok=True)
    write(module / "version", _version(driver))
    write(module / "params", "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n")
    for capability, number, access in (("config", Capability.CONFIG, 0o400), ("monitor", Capability.MONITOR, 0o444)):
        text = f"DeviceFileMinor: {number}\nDeviceFileMode: {access}\nDeviceFileModify: 1\n"
        write(module / "capabilities/mig" / capability, text)
    write(proc / "driver/nvidia-caps/mig-minors", _mig_minors())
    write(
        proc / "devices",
        "Character devices:\n  1 mem\n"
        f"{Major.NVIDIA} nvidia\n{Major.NVIDIA} nvidiactl\n{Major.UVM} nvidia-uvm\n"
        f"{Major.CAPABILITIES} nvidia-caps\n\nBlock devices:\n  8 sd\n",
    )
    for name, (major, minor, mode) in _DEVICES.items():
        if not (Quirk.LATE_UVM in quirks and major is Major.UVM):
            _make_device(directory / "dev" / name, major, minor, mode)


def unload_module(directory: Path) -> None:
    """The device nodes of GPUs outlive the module, they only lead nowhere; those of MIG instances go with these."""
    for device in (directory / "dev/nvidia-caps").iterdir():
        if f"nvidia-caps/{device.name}" not in _DEVICES:
            device.unlink()
    aside = directory / _MODULE.with_name(".unloaded")
    shutil.rmtree(aside, ignore_errors=True)
    if (directory / _MODULE).exists():
        # The kernel never gives a directory of a module the number of an earlier one; a file system would.
        (directory / _MODULE).rename(aside)
    for name in ("driver/nvidia", "driver/nvidia-caps"):
        shutil.rmtree(directory / "proc" / name, ignore_errors=True)
    write(directory / "proc/devices", "Character devices:\n  1 mem\n\nBlock devices:\n  8 sd\n")


def write(path: Path, text: str) -> None:
    """Whole at once, whoever reads it meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.new")
    # Of a process that was killed: who is not root could not write into it.
    aside.unlink(missing_ok=True)
    aside.write_text(text)
    aside.chmod(0o444)
    aside.rename(path)


def _version(driver: Driver) -> str:
    return (
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver.version}  (simulated)\n"
        "GCC version:  gcc version 12.2.0 (simulated)\n"
    )


@cache
def _mig_minors() -> str:
    return "".join(f"{name} {minor}\n" for name, minor in _numbered_capabilities())


def _numbered_capabilities() -> Iterator[tuple[str, int]]:
    yield "config", Capability.CONFIG
    yield "monitor", Capability.MONITOR
    for gpu, gi in product(range(_GPUS), range(_GPU_INSTANCES)):
        yield f"gpu{gpu}/gi{gi}/access", gpu_instance_capability(gpu, gi)
        for ci in range(_COMPUTE_INSTANCES):
            yield f"gpu{gpu}/gi{gi}/ci{ci}/access", compute_instance_capability(gpu, gi, ci)


def _make_device(path: Path, major: int, minor: int, mode: int) -> None:
    """An ordinary file for those who may not make device nodes."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | mode, os.makedev(major, minor))
    except PermissionError:
        path.touch()
    path.chmod(mode)
