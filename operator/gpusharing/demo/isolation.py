"""Mounts of our own, for an ordinary user: the agent gives each MPS daemon a directory in memory, and containers have a
root of their own.

A user namespace makes this process root over nothing but its own mounts. Some systems do not allow that.
"""

import ctypes
import os
import tempfile
from pathlib import Path
from typing import Final

_NEW_MOUNTS: Final = 0x00020000
_NEW_USER: Final = 0x10000000
_FOR_US_ALONE: Final = 1 << 18
_AND_ALL_BELOW: Final = 16384
_libc: Final = ctypes.CDLL(None, use_errno=True)


def isolate() -> bool:
    """For this process, which has no threads yet, and those that it starts from now on. False: this system does not
    allow it, and nothing is changed."""
    if not _is_possible():
        return False
    _enter()
    return True


def _is_possible() -> bool:
    """A child tries it: for the process that does it, there is no way back."""
    with tempfile.TemporaryDirectory(prefix="gpusharing-") as directory:
        child = os.fork()
        if child == 0:
            try:
                _enter()
                _require(_libc.mount(b"demo", os.fsencode(directory), b"tmpfs", 0, None))
                os._exit(0)
            except OSError:
                os._exit(1)
        _, status = os.waitpid(child, 0)
    return status == 0


def _enter() -> None:
    user, group = os.geteuid(), os.getegid()
    _require(_libc.unshare(_NEW_MOUNTS | (0 if user == 0 else _NEW_USER)))
    if user != 0:
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny")
        (own / "uid_map").write_text(f"0 {user} 1")
        (own / "gid_map").write_text(f"0 {group} 1")
    # What is mounted here is nobody else's.
    _require(_libc.mount(None, b"/", None, _FOR_US_ALONE | _AND_ALL_BELOW, None))


def _require(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
