"""Processes that outlive the test run that started them, known by a variable of their environment, or by the directory
in which their program lies: an agent that is tested in this process gives the daemons of a simulated node an
environment of their own.

A guard process waits for the end of a pipe that only the run holds, and ends them, also where the run was killed.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from harness.ending import end_all
from harness.scratch import programs_below

_VARIABLE = "GPUSHARING_TEST_RUN"
_PROC = Path("/proc")
_TESTS = Path(__file__).parents[1]
_guards: list[subprocess.Popen[str]] = []  # to the end of this process, and so are their pipes
_directories: list[Path] = []


def mark_processes() -> None:
    """What this process starts from now on ends with it at the latest."""
    marker = os.environ[_VARIABLE] = secrets.token_hex()
    command = [sys.executable, "-P", "-m", __name__, marker]
    # Without the marker: it must not end itself.
    environment = {"PYTHONPATH": str(_TESTS)}
    _guards.append(subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True, text=True))


def mark_programs_below(directory: Path) -> None:
    """Likewise, after `mark_processes`."""
    _directories.append(directory)
    for guard in _guards:
        assert guard.stdin is not None
        print(directory, file=guard.stdin, flush=True)


def orphans() -> list[str]:
    """What this process has started and nobody waits for any more, such as a daemon."""
    found = _found(os.environ[_VARIABLE], _directories)
    return [f"{pid}: {_command(pid)}" for pid in sorted(found) if not _is_awaited(pid)]


def _is_awaited(pid: int) -> bool:
    while pid > 1 and pid != os.getpid():
        pid = _parent(pid)
    return pid == os.getpid()


def _found(marker: str, directories: Iterable[Path]) -> set[int]:
    return set(_marked(marker)).union(*map(programs_below, directories))


def _marked(marker: str) -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit() and _is_marked(entry, marker)]


def _is_marked(process: Path, marker: str) -> bool:
    with suppress(OSError):
        return f"{_VARIABLE}={marker}".encode() in (process / "environ").read_bytes().split(b"\0")
    return False


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _command(pid: int) -> str:
    with suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


if __name__ == "__main__":
    told = [Path(line) for line in sys.stdin.read().splitlines()]
    end_all(lambda: _found(sys.argv[1], told))
