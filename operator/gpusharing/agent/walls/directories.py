"""Where the agent and our hook tell each other of walls: a directory for each device of a claim.

    wall            the agent's: what our hook is to do
    containers/ID   our hook's: the cgroup of a container that it has let in, below where cgroups are mounted
    failure         our hook's: why the last one that it has let in has no wall

The hook also has its bundle for NVIDIA's hook there. Nothing in it outlives a reboot in any use: then there are neither
containers nor limits, and the kubelet asks for each claim anew.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusharing.agent.state.files import remove_leftovers, write_if_changed
from gpusharing.agent.walls.wall import Wall, file_content

_WALL: Final = "wall"


@dataclass(frozen=True, slots=True)
class NotedContainer:
    """One that may have ended since."""

    id: str
    cgroup: str
    """Begins with a slash, as in /proc/*/cgroup."""

    def seen_from(self, cgroups: Path) -> Path:
        """Where it is if the hierarchy is mounted there."""
        return cgroups / self.cgroup.lstrip("/")


class WallDirectories:
    def __init__(self, home: Path) -> None:
        """`home` has the same path on the host: our hook runs there."""
        self._home = home
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for directory in home.glob("*/*"):
            remove_leftovers(directory, _WALL)

    def path(self, claim_uid: str, index: int) -> Path:
        return self._home / claim_uid / str(index)

    def write(self, claim_uid: str, index: int, wall: Wall) -> Path:
        """The directory for our hook. It may be written anew while containers are there: that binds those to come."""
        directory = self.path(claim_uid, index)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path, content = directory / _WALL, file_content(wall)
        write_if_changed(path, content)
        return directory

    def has(self, claim_uid: str, index: int) -> bool:
        return (self.path(claim_uid, index) / _WALL).exists()

    def delete(self, claim_uid: str) -> None:
        shutil.rmtree(self._home / claim_uid, ignore_errors=True)

    def claims(self) -> list[str]:
        """The claims that have any, whoever wrote them when."""
        return [path.name for path in self._home.iterdir()] if self._home.is_dir() else []

    def containers(self, claim_uid: str, index: int) -> list[NotedContainer]:
        return list(_noted(self.path(claim_uid, index) / "containers"))

    def failure(self, claim_uid: str, index: int) -> str | None:
        try:
            return (self.path(claim_uid, index) / "failure").read_text(errors="replace")
        except FileNotFoundError:
            return None


def _noted(directory: Path) -> Iterator[NotedContainer]:
    for path in sorted(directory.glob("[!.]*")):
        try:
            yield NotedContainer(path.name, path.read_text(errors="surrogateescape"))
        except FileNotFoundError:
            # Our hook removes those that have ended.
            continue
