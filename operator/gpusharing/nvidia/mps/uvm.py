"""/dev/nvidia-uvm, without which no MPS server starts. The driver makes it when the first CUDA program starts on the
host, which may be never."""

import os
import re
import stat
from pathlib import Path
from typing import Final

from gpusharing.nvidia.errors import MpsError

_MINORS: Final = {"nvidia-uvm": 0, "nvidia-uvm-tools": 1}
_REMEDY: Final = "run `nvidia-modprobe -u -c=0` on the node"


def is_there(dev: Path, proc: Path) -> bool:
    major = _major(proc)
    return all(_is_device(dev / name, major, minor) for name, minor in _MINORS.items())


def make(dev: Path, proc: Path) -> None:
    """The device nodes of a module that is loaded."""
    major = _major(proc)
    if major is None:
        raise MpsError(f"{proc / 'devices'} has no nvidia-uvm, so the module is not loaded", remedy=_REMEDY)
    for name, minor in _MINORS.items():
        if not _is_device(dev / name, major, minor):
            _make(dev / name, major, minor)


def _make(path: Path, major: int, minor: int) -> None:
    # Made aside: nobody sees it with other rights than its own, and one of a former module is replaced.
    aside = path.with_name(f".{path.name}.new")
    try:
        aside.unlink(missing_ok=True)
        os.mknod(aside, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        aside.chmod(0o666)
        aside.rename(path)
    except OSError as error:
        raise MpsError(f"device node {path} cannot be made: {error}", remedy=_REMEDY) from error


def _is_device(path: Path, major: int | None, minor: int) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return major is not None and stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(major, minor)


def _major(proc: Path) -> int | None:
    try:
        found = re.search(r"^\s*(\d+) nvidia-uvm$", (proc / "devices").read_text(), re.MULTILINE)
    except OSError as error:
        raise MpsError(f"character devices cannot be read: {error}") from error
    return int(found[1]) if found else None
