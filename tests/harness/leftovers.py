"""What a cluster leaves behind, by what it had."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.scratch import DAEMONS, programs_below

_PROC = Path("/proc")


@dataclass(frozen=True)
class Traces:
    """Of a process, of all that it has started, and of what runs in its directories, which must be named."""

    processes: frozenset[tuple[int, str]]  # with their start, as numbers are used again
    namespaces: frozenset[str]
    cgroups: frozenset[Path]
    directories: frozenset[Path]
    taken: int
    """When, as processes' starts are told."""

    def remaining(self) -> list[str]:
        # Of those that have ended, whoever is the first process here may not have taken note yet.
        processes = {(pid, _start(pid)) for pid in _pids() if _stat(pid)[0] != "Z"} & self.processes
        # The number of a namespace that has gone is given to the next one: whoever began later has another one.
        then = [pid for pid in _pids() if int(_start(pid) or self.taken + 1) <= self.taken]
        namespaces = {name for pid in then for name in _namespaces(pid)} & self.namespaces
        mounted = [name for name in self.namespaces if name in Path("/proc/self/mountinfo").read_text()]
        paths = [path for path in self.cgroups | self.directories if path.exists()]
        return [str(trace) for trace in (*processes, *namespaces, *mounted, *paths)]


def traces_of(ancestor: int, *directories: Path) -> Traces:
    pids = _descendants(ancestor).union(*map(programs_below, directories))
    return Traces(
        processes=frozenset((pid, _start(pid)) for pid in pids),
        namespaces=frozenset(name for pid in pids for name in _namespaces(pid)) - _namespaces(os.getpid()),
        cgroups=frozenset(cgroup for pid in pids for cgroup in _cgroups(pid)) - _cgroups(os.getpid()),
        directories=frozenset(directories),
        taken=max(int(_start(pid) or 0) for pid in _pids()),
    )


def _descendants(ancestor: int) -> set[int]:
    parents = {pid: _stat(pid)[1] for pid in _pids()}
    found: set[int] = set()
    new = {ancestor}
    while new:
        found |= new
        new = {pid for pid, parent in parents.items() if parent and int(parent) in new}
    return found


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _start(pid: int) -> str:
    return _stat(pid)[19]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on, which is the state."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return [""] * 20


def _namespaces(pid: int) -> frozenset[str]:
    """Such as net:[4026531840]."""
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        return frozenset(str(link.readlink()) for link in (_PROC / str(pid) / "ns").iterdir())
    return frozenset()


def _cgroups(pid: int) -> frozenset[Path]:
    """Directories that may be this process's: each hierarchy is mounted somewhere below /sys/fs/cgroup."""
    with suppress(FileNotFoundError, ProcessLookupError):
        paths = {line.split(":", 2)[2].lstrip("/") for line in (_PROC / str(pid) / "cgroup").read_text().splitlines()}
        paths.discard(DAEMONS)  # another node may have some there
        root = Path("/sys/fs/cgroup")
        return frozenset(mount / path for path in paths if path for mount in (root, *root.iterdir()))
    return frozenset()
