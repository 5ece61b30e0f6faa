"""Of which claims a process has devices: its container has our metadata files of them among its mounts.

A mount is told by what it is of, a path of a file system, rather than by where it is: a tenant can have any path in a
container, and can have nothing of ours there but what the container runtime has put there for a claim.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

_PROCESSES: Final = Path("/proc")
# In a user namespace of its own a tenant may mount as often as it likes. What its container was given comes first.
_MOST: Final = 1024**2
_ESCAPED: Final = re.compile(rb"[ \t\n\\]")


class _Mount(NamedTuple):
    """A line of /proc/*/mountinfo, whose paths have octal numbers for white space."""

    file_system: bytes
    root: bytes
    """What it is of, in its file system."""
    point: bytes


class ContainerClaims:
    def __init__(self, metadata: Path) -> None:
        """`metadata`: where our files are, by claim."""
        self._file_system, root = _place(metadata.resolve())
        self._prefix = root + b"/"

    def of(self, pids: Iterable[int]) -> Mapping[int, frozenset[str]]:
        """The uids of the claims of each process that is still there."""
        return {pid: found for pid in pids if (found := self._of(pid)) is not None}

    def _of(self, pid: int) -> frozenset[str] | None:
        try:
            mounts = list(_mounts(str(pid)))
        except OSError:
            # It has ended.
            return None
        return frozenset(
            mount.root.removeprefix(self._prefix).partition(b"/")[0].decode(errors="replace")
            for mount in mounts
            if mount.file_system == self._file_system and mount.root.startswith(self._prefix)
        )


def _mounts(process: str) -> Iterator[_Mount]:
    with (_PROCESSES / process / "mountinfo").open("rb") as file:
        *lines, _ = file.read(_MOST).split(b"\n")
    for line in lines:
        _, _, file_system, root, point, _ = line.split(b" ", 5)
        yield _Mount(file_system, root, point)


def _place(path: Path) -> tuple[bytes, bytes]:
    """The file system that it is in, and its path there."""
    wanted = _ESCAPED.sub(lambda found: b"\\%03o" % found[0][0], os.fsencode(path))
    above = [mount for mount in _mounts("self") if (wanted + b"/").startswith(mount.point.rstrip(b"/") + b"/")]
    # Of those at one place, the last one hides the others.
    mount = max(reversed(above), key=lambda mount: len(mount.point))
    return mount.file_system, mount.root.rstrip(b"/") + wanted.removeprefix(mount.point.rstrip(b"/"))
