"""Whether the node still has the directories that are mounted into the agent's container.

One that somebody removes or moves stays where it is mounted. Then nobody finds what is written there, and a container
runtime that watches it does not hear of its end before the last mount of it has gone. Where it has gone to is seen in
the list of mounts only: its root has another path, or is marked as deleted.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from gpusharing.agent.problems import DirectoryGoneError

_OWN: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class _Mount(NamedTuple):
    id: str
    point: str
    root: str
    """Of what is mounted, in its file system. Both are escaped, as the kernel writes them."""

    @property
    def place(self) -> Path:
        return Path(_ESCAPED.sub(lambda escaped: chr(int(escaped[1], 8)), self.point))


class MountedDirectories:
    def __init__(self, directories: Iterable[Path]) -> None:
        """As they are mounted now, or where they are on no mount of their own."""
        mounts = list(_mounts())
        used = [_mount_of(directory.resolve(), mounts) for directory in directories]
        self._known = {mount.id: mount for mount in used if mount}

    def check(self) -> None:
        # A node has a thousand mounts. What is unmounted here, or covered by another mount, this agent sees as well.
        now = [(self._known[mount.id], mount) for mount in _mounts() if mount.id in self._known]
        gone = sorted({str(then.place) for then, mount in now if mount.point == then.point and mount.root != then.root})
        if gone:
            raise DirectoryGoneError(
                f"the node's directory that is mounted at {' and '.join(gone)} was removed or moved: the agent ends, "
                "so that its next container mounts what the node has there; find out who did it"
            )


def _mount_of(directory: Path, mounts: Iterable[_Mount]) -> _Mount | None:
    """None: it is on the root of somebody who has no mount there, as by chroot."""
    above = [mount for mount in mounts if mount.place in {directory, *directory.parents}]
    # Of those at one place, the last one covers the others.
    return max(reversed(above), key=lambda mount: len(mount.place.parts), default=None)


def _mounts() -> Iterator[_Mount]:
    for line in _OWN.read_text(errors="surrogateescape").splitlines():
        number, _, _, root, point, _ = line.split(" ", 5)
        yield _Mount(number, point, root)
