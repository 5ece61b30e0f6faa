"""Runs a program apart from the agent: with a /dev/shm of its own, and where the end of the agent's container does not
end it, too.

Run by itself (`python -I -S apart.py SHM CGROUPS PROGRAM ...`): a process can only do this for all of itself.
"""

import ctypes
import os
import sys
from pathlib import Path

_NEW_MOUNT_NAMESPACE = 0x00020000
_BIND, _AND_ALL_BELOW, _FOLLOW_THE_HOST = 4096, 16384, 1 << 19
_SHM = "/dev/shm"  # noqa: S108 (where programs expect it)
_CGROUP = "gpusharing"


def leave_cgroup(cgroups: Path) -> None:
    """Whoever ends a container ends all that is in its cgroup. On cgroup v1 nobody leaves."""
    if (cgroups / "cgroup.procs").exists():
        own = cgroups / _CGROUP
        own.mkdir(exist_ok=True)
        (own / "cgroup.procs").write_text("0")


def own_shm(directory: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _require(libc.unshare(_NEW_MOUNT_NAMESPACE), "unshare")
    # What the host unmounts later must not be kept here.
    _require(libc.mount(None, b"/", None, _FOLLOW_THE_HOST | _AND_ALL_BELOW, None), "mount /")
    _require(libc.mount(os.fsencode(directory), _SHM.encode(), None, _BIND, None), f"mount {directory}")


def _require(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


def main(shm: str, cgroups: str, program: str, *arguments: str) -> None:
    try:
        leave_cgroup(Path(cgroups))
        own_shm(Path(shm))
        os.execv(program, [program, *arguments])  # noqa: S606 (as it is)
    except OSError as error:
        sys.exit(f"{program} cannot be run apart from the agent: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
