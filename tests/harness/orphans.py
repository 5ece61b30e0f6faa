"""Processes that outlive the test run that started them, known by a variable of their environment.

A guard process waits for the end of a pipe that only the run holds, and ends them, also where the run was killed.
"""

import os
import secrets
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from harness.ending import end_all

_VARIABLE = "GPUSHARING_TEST_RUN"
_PROC = Path("/proc")
_TESTS = Path(__file__).parents[1]
_guards: list[subprocess.Popen[bytes]] = []  # to the end of this process, and so are their pipes


def mark_processes() -> None:
    """What this process starts from now on ends with it at the latest."""
    marker = os.environ[_VARIABLE] = secrets.token_hex()
    command = [sys.executable, "-P", "-m", __name__, marker]
    # Without the marker: it must not end itself.
    environment = {"PYTHONPATH": str(_TESTS)}
    _guards.append(subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True))


def orphans() -> list[str]:
    """What this process has started and nobody waits for any more, such as a daemon."""
    return [f"{pid}: {_command(pid)}" for pid in _marked(os.environ[_VARIABLE]) if not _is_awaited(pid)]


def _is_awaited(pid: int) -> bool:
    while pid > 1 and pid != os.getpid():
        pid = _parent(pid)
    return pid == os.getpid()


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
    sys.stdin.read()
    end_all(lambda: _marked(sys.argv[1]))
