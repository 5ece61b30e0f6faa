"""The MPS control daemons of a simulated node, found and harmed without a word to the daemon itself."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpusharing.sim.errors import SimError

CONTROL = "nvidia-cuda-mps-control"
SERVER = "nvidia-cuda-mps-server"

_PIPE_VARIABLE = b"CUDA_MPS_PIPE_DIRECTORY"
_DEFAULT_PIPE = Path("/tmp/nvidia-mps")  # noqa: S108


@dataclass(frozen=True)
class MpsDaemon:
    pid: int
    pipe: Path


def running_daemons(programs: Path) -> list[MpsDaemon]:
    """Those that run the program of this directory. A command that is just given runs it as well, but is no daemon."""
    daemons = [MpsDaemon(pid, pipe) for pid, program, pipe in _daemons() if program == programs / CONTROL]
    return sorted(daemons, key=lambda daemon: daemon.pid)


def _daemons() -> Iterator[tuple[int, Path, Path]]:
    """Number, program and pipe directory. A daemon may have a root and process numbers of its own."""
    for entry in Path("/proc").iterdir():
        # It may be gone by now, or be of somebody else.
        with suppress(OSError):
            if entry.name.isdecimal() and (program := (entry / "exe").readlink()).name == CONTROL:
                pipe = _pipe_directory(entry)
                seen = entry / "root" / pipe.relative_to("/")
                if (seen / f"{CONTROL}.pid").read_text().strip() == _own_number(entry):
                    yield int(entry.name), program, pipe if pipe.exists() and pipe.samefile(seen) else seen


def _pipe_directory(process: Path) -> Path:
    variables = dict(each.partition(b"=")[::2] for each in (process / "environ").read_bytes().split(b"\0"))
    configured = variables.get(_PIPE_VARIABLE)
    return Path(os.fsdecode(configured)) if configured else _DEFAULT_PIPE


def _own_number(process: Path) -> str:
    """As the process itself knows it."""
    fields = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return fields["NSpid"].split()[-1]


def find_daemon(pipe_directory: Path) -> int | None:
    """The daemon that has this pipe directory; not one that was there before and left its files."""
    for pid, _, pipe in _daemons():
        with suppress(OSError):
            if pipe.samefile(pipe_directory):
                return pid
    return None


def daemon_pid(pipe_directory: Path) -> int:
    pid = find_daemon(pipe_directory)
    if pid is None:
        raise SimError(f"no MPS control daemon runs with the pipe directory {pipe_directory}")
    return pid


def kill_daemon(pipe_directory: Path) -> None:
    """It is gone afterwards, and leaves its files, its servers and their clients behind."""
    process = os.pidfd_open(daemon_pid(pipe_directory))
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        end = select.poll()
        end.register(process, select.POLLIN)
        end.poll()
    finally:
        os.close(process)
