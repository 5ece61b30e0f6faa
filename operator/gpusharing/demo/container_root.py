"""Becomes a program in a root of its own, in which are the node's driver and what CDI mounts.

Run by itself (`python -I -S container_root.py ROOT DRIVER NUMBER SOURCE:TARGET ... PROGRAM ...`): a process can only do
this for all of itself.
"""

import ctypes
import os
import sys
from pathlib import Path

_NEW_MOUNT_NAMESPACE = 0x00020000
_BIND, _AND_ALL_BELOW = 4096, 16384


def enter(root: Path, mounts: list[tuple[Path, Path]]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def require(result: int, what: str) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)

    require(libc.unshare(_NEW_MOUNT_NAMESPACE), "unshare")
    for source, target in mounts:
        inside = root / target.relative_to("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            inside.mkdir(exist_ok=True)
        else:
            inside.touch()
        flags = _BIND | _AND_ALL_BELOW
        require(libc.mount(os.fsencode(source), os.fsencode(inside), None, flags, None), f"mount {source}")
    os.chroot(root)
    os.chdir("/")


def main(root: str, driver: str, number: str, *words: str) -> None:
    given, command = words[: int(number)], words[int(number) :]
    mounts = [(Path(source), Path(target)) for source, _, target in (one.partition(":") for one in given)]
    try:
        enter(Path(root), [(Path(driver), Path(driver)), (Path("/proc"), Path("/proc")), *mounts])
        os.execv(command[0], command)  # noqa: S606 (as it is)
    except OSError as error:
        sys.exit(f"the container cannot be started: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
