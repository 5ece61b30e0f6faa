"""Which processes belong to an MPS directory. Only those are ever ended."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONTROL: Final = "nvidia-cuda-mps-control"
SERVER: Final = "nvidia-cuda-mps-server"

PIPE_VARIABLE: Final = "CUDA_MPS_PIPE_DIRECTORY"
LOG_VARIABLE: Final = "CUDA_MPS_LOG_DIRECTORY"
DEVICES_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"

_PROCESSES: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    program: str
    arguments: tuple[str, ...]
    environment: dict[str, str]


def daemon(pipe: Path) -> Process | None:
    """By the file that it leaves in its directory. Its number may be another's by now."""
    try:
        pid = int((pipe / f"{CONTROL}.pid").read_text())
    except (OSError, ValueError):
        return None
    process = _read(pid)
    return process if process and process.program == CONTROL and _belongs(process, pipe) else None


def of_directory(pipe: Path) -> list[Process]:
    """All daemons and servers that were started for this directory, also those whose daemon is dead."""
    found = [process for pid in _pids() if (process := _read(pid)) and _belongs(process, pipe)]
    # Without an option it is one that brings a daemon a command.
    return [process for process in found if process.program == SERVER or len(process.arguments) > 1]


def is_alive(pid: int) -> bool:
    """Not for one that is dead and whose parent has not noticed."""
    try:
        state = (_PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdecimal())


def _read(pid: int) -> Process | None:
    directory = _PROCESSES / str(pid)
    try:
        # Of an exchanged driver, one of before may still run.
        program = (directory / "exe").readlink().name.removesuffix(" (deleted)")
        # Others are not worth reading on.
        if program not in {CONTROL, SERVER}:
            return None
        environment = _words(directory / "environ")
        return Process(
            pid=pid,
            program=program,
            arguments=tuple(_words(directory / "cmdline")),
            environment={name: value for name, _, value in (word.partition("=") for word in environment)},
        )
    except OSError:
        return None


def _words(file: Path) -> list[str]:
    return file.read_bytes().decode(errors="replace").split("\0")[:-1]


def _belongs(process: Process, pipe: Path) -> bool:
    return process.environment.get(PIPE_VARIABLE) == str(pipe)
