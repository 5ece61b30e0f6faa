"""Which processes belong to an MPS directory. Only those are ever ended.

They are known by a mark in their environment, which servers inherit from their daemon: a secret of this node and the
directory. No process of a container can have it, and what a container can write is not asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONTROL: Final = "nvidia-cuda-mps-control"
SERVER: Final = "nvidia-cuda-mps-server"

PIPE_VARIABLE: Final = "CUDA_MPS_PIPE_DIRECTORY"
LOG_VARIABLE: Final = "CUDA_MPS_LOG_DIRECTORY"
DEVICES_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
MARK_VARIABLE: Final = "GPUSHARING_MPS"

_PROC: Final = Path("/proc")
# What we give to ours is far shorter; others may have any.
_MOST: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    program: str
    arguments: tuple[str, ...]
    environment: dict[str, str]

    @property
    def is_daemon(self) -> bool:
        # Without an option it brings a daemon a command.
        return self.program == CONTROL and len(self.arguments) > 1


def with_mark(mark: str) -> list[Process]:
    """The daemon and the servers, also those whose daemon is dead. The secret alone stands for all directories."""
    found = [process for pid in _pids() if (process := read(pid, mark))]
    return [process for process in found if process.program == SERVER or process.is_daemon]


def read(pid: int, mark: str) -> Process | None:
    """None: there is none, or it is somebody else."""
    directory = _PROC / str(pid)
    try:
        # Of an exchanged driver, one of before may still run.
        program = (directory / "exe").readlink().name.removesuffix(" (deleted)")
        # Others are not worth reading on.
        if program not in {CONTROL, SERVER}:
            return None
        environment = {
            name: value for name, _, value in (word.partition("=") for word in _words(directory / "environ"))
        }
        own = environment.get(MARK_VARIABLE, "")
        if mark not in {own, own.partition(" ")[0]}:
            return None
        return Process(pid, program, tuple(_words(directory / "cmdline")), environment)
    except OSError:
        return None


def is_alive(pid: int) -> bool:
    """Not for one that is dead and whose parent has not noticed."""
    try:
        state = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())


def _words(file: Path) -> list[str]:
    with file.open("rb") as opened:
        return opened.read(_MOST).decode(errors="replace").split("\0")[:-1]
