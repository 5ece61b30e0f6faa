"""Runs our agent for an ordinary user, who may make no device nodes.

As fakeroot does it: where this process makes a device node it gets a file, and sees a device node with its numbers
there. All else is the agent. `python -m gpusharing.demo.device_files agent ...`
"""

import os
import stat
import sys
from typing import Any, Final

from gpusharing.cli.main import main

_stat: Final = os.stat
_mknod: Final = os.mknod
_numbers: Final[dict[tuple[int, int], int]] = {}
"""The number of the device, by file system and inode."""
_TEXT: Final = b"a device node\n"


def _make(path: Any, mode: int = 0o600, device: int = 0, **where: Any) -> None:
    try:
        _mknod(path, mode, device, **where)
    except PermissionError:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IMODE(mode))
        try:
            os.write(descriptor, _TEXT)
            file = os.fstat(descriptor)
            _numbers[file.st_dev, file.st_ino] = device
        finally:
            os.close(descriptor)


def _look(path: Any, **where: Any) -> os.stat_result:
    found = _stat(path, **where)
    device = _numbers.get((found.st_dev, found.st_ino))
    # An inode may have gone to another file.
    if device is None or not stat.S_ISREG(found.st_mode) or found.st_size != len(_TEXT):
        return found
    fields = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
    mode = stat.S_IFCHR | stat.S_IMODE(found.st_mode)
    return os.stat_result((mode, *found[1:]), fields | {"st_rdev": device})


if __name__ == "__main__":
    os.mknod, os.stat = _make, _look
    main(sys.argv[1:])
