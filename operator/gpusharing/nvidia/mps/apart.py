"""Starts a program of the driver apart from the agent: with the driver's own libraries, the host's devices and a
/dev/shm of its own, and outside of the agent's cgroup.

Run by itself (`python -I -S apart.py ROOT DEV CGROUPS DIRECTORY PROGRAM ...`): a process can only do this for all of
itself.
"""

import ctypes
import os
import sys
from pathlib import Path

_NEW_MOUNT_NAMESPACE = 0x00020000
_BIND, _AND_ALL_BELOW, _FOLLOW_THE_HOST = 4096, 16384, 1 << 19
_DETACH = 2
_CGROUP = "gpusharing"
DIRECTORY = Path("/mnt")
"""Where the program finds the directory of its daemon."""


def leave_cgroup(cgroups: Path) -> None:
    """Whoever ends a container ends all that is in its cgroup. On cgroup v1 nobody leaves."""
    if (cgroups / "cgroup.procs").exists():
        own = cgroups / _CGROUP
        own.mkdir(exist_ok=True)
        (own / "cgroup.procs").write_text("0")


def enter(root: Path, dev: Path, directory: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    root = root.resolve()

    def require(result: int, what: str) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)

    def bind(source: Path, target: Path, flags: int = 0) -> None:
        what = f"mount {source} at {target}"
        require(libc.mount(os.fsencode(source), os.fsencode(target), None, _BIND | flags, None), what)

    require(libc.unshare(_NEW_MOUNT_NAMESPACE), "unshare")
    # What the host unmounts later must not be kept here.
    require(libc.mount(None, b"/", None, _FOLLOW_THE_HOST | _AND_ALL_BELOW, None), "mount /")
    bind(dev, root / "dev", _AND_ALL_BELOW)
    bind(directory / "shm", root / "dev/shm")
    bind(directory, root / DIRECTORY.relative_to("/"))
    if not (root / "proc/self").exists():
        bind(Path("/proc"), root / "proc", _AND_ALL_BELOW)
    # While a directory that the node has no more is mounted anywhere, the container runtime does not hear of its end.
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        point = Path(line.split()[4])
        if not point.is_relative_to(root) and not root.is_relative_to(point):
            libc.umount2(os.fsencode(point), _DETACH)
    os.chroot(root)
    os.chdir("/")


def main(root: str, dev: str, cgroups: str, directory: str, program: str, *arguments: str) -> None:
    try:
        leave_cgroup(Path(cgroups))
        enter(Path(root), Path(dev), Path(directory))
        os.execv(program, [program, *arguments])  # noqa: S606 (as it is)
    except OSError as error:
        sys.exit(f"{program} cannot be run apart from the agent: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
