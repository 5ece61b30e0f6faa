"""Leaves nothing behind, however the demo ends, also by `kill -9`.

The guard is a process of its own. It waits for the end of a pipe that only the demo holds. Then it ends the programs
that the demo has started, of which MPS daemons outlive their agents on purpose, and removes the demo's directory.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MARK: Final = "GPUSHARING_DEMO"
"""In the environment of the programs: the directory of the demo."""
_PATIENCE: Final = 10.0


@contextlib.contextmanager
def guarded_directory() -> Iterator[Path]:
    """A new directory. Its name is short: sockets of agents below it have at most 107 bytes."""
    directory = Path(tempfile.mkdtemp(prefix="gpus-", dir="/tmp")).resolve()
    os.environ[MARK] = str(directory)
    # Ctrl-C ends all of a terminal's programs, and the guard has work to do then.
    with subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    ):
        yield directory


def programs_of(directory: Path) -> list[int]:
    """Those that have the mark, and those whose program lies there: MPS daemons have an environment of their own."""
    mark = f"{MARK}={directory}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            # It may be gone by now, or be of somebody else.
            with contextlib.suppress(OSError):
                is_there = (entry / "exe").readlink().is_relative_to(directory)
                if is_there or mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def _end(directory: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        pids = programs_of(directory)
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            # Looked at once more after that: a program may have begun another while they were listed.
            if not directory.exists():
                return
            # Who has just been killed may still have mounts there.
            shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.02)


if __name__ == "__main__":
    sys.stdin.read()
    _end(Path(sys.argv[1]))
