"""A program with CUDA. It says what it may use of its device, and takes memory until it is refused or has enough.

Run by itself (`python -I -S cuda_client.py LIBRARY MIB [CGROUP]`): a process gives up its GPU only when it ends. It
prints a line of JSON. It needs nothing of CUDA but the driver's own library.
"""

import ctypes
import json
import signal
import sys
from pathlib import Path
from typing import Final

_MULTIPROCESSOR_COUNT: Final = 16
_MIB: Final = 1024**2
_SECONDS: Final = 60
"""CUDA waits without end for a server of MPS that does not come, also when nobody waits for this program any more."""
_BLOCK_MIB: Final = 50
"""Small enough to come close to a limit, large enough to be a block of its own for the driver."""


class CudaError(Exception):
    pass


class Driver:
    """CUDA's driver API: each call raises the name of its error."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)

    def call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            name = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(name))
            raise CudaError(f"{function}: {(name.value or b'CUDA error').decode()} ({code})")


def use_first_device(driver: Driver, most: int) -> dict[str, object]:
    device, count, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver.call("cuInit", 0)
    driver.call("cuDeviceGet", ctypes.byref(device), 0)
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    driver.call("cuDeviceGetAttribute", ctypes.byref(count), _MULTIPROCESSOR_COUNT, device)
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    taken, refusal = take_memory(driver, most)
    return {
        "multiprocessors": count.value,
        "total_mib": total.value // _MIB,
        "free_mib": free.value // _MIB,
        "taken_mib": taken,
        "refusal": refusal,
    }


def take_memory(driver: Driver, most: int) -> tuple[int, str | None]:
    """How many MiB it got, and the error that kept it from more."""
    taken = 0
    while taken < most:
        address = ctypes.c_uint64()
        try:
            driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(_BLOCK_MIB * _MIB))
        except CudaError as error:
            return taken, str(error)
        taken += _BLOCK_MIB
    return taken, None


def main(library: str, mib: str, cgroup: str | None = None) -> None:
    signal.alarm(_SECONDS)
    try:
        if cgroup:
            Path(cgroup, "cgroup.procs").write_text("0")
        print(json.dumps(use_first_device(Driver(library), int(mib))))  # noqa: T201 (that is its answer)
    except (CudaError, OSError, AttributeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
