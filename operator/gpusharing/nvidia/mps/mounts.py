"""tmpfs of our own, for which Python has no call."""

import ctypes
import os
from pathlib import Path
from typing import Final

_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_DETACH, _NOFOLLOW = 2, 8
_libc: Final = ctypes.CDLL(None, use_errno=True)


def mount_tmpfs(directory: Path, *, size: int, files: int, mode: int) -> None:
    """At most so many bytes in so many files; no program, device or set-uid file works there."""
    options = f"size={size},nr_inodes={files},mode={mode:o}"
    result = _libc.mount(b"gpusharing", os.fsencode(directory), b"tmpfs", _NOSUID | _NODEV | _NOEXEC, options.encode())
    _require(result, directory)


def unmount(directory: Path) -> None:
    """Everything that is mounted there. Containers that have it keep it until they end."""
    while directory.is_mount():
        _require(_libc.umount2(os.fsencode(directory), _DETACH | _NOFOLLOW), directory)


def _require(result: int, directory: Path) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(directory))
