"""Programs that run for long, whose messages go to a log."""

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

_POLL_SECONDS = 0.2
_LAST_LINES = 30


class LoggedProgramError(Exception):
    """Has the end of the log, and its name."""


class Tail:
    """The lines that a file gets."""

    def __init__(self, file: Path) -> None:
        self._opened: IO[str] = file.open(errors="replace")
        self._opened.seek(0, 2)
        self._unfinished = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def new_lines(self) -> list[str]:
        *lines, self._unfinished = (self._unfinished + self._opened.read()).split("\n")
        return lines


def run_logged(
    command: Sequence[str | Path],
    log: Path,
    follow: Callable[[Sequence[str]], None],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """What the program prints. Its messages are added to the log, and followed several times a second."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as messages, Tail(log) as tail, tempfile.TemporaryFile("w+") as printed:
        with subprocess.Popen(command, cwd=directory, env=environment, stdout=printed, stderr=messages) as program:
            try:
                while program.poll() is None:
                    follow(tail.new_lines())
                    time.sleep(_POLL_SECONDS)
            except BaseException:
                program.kill()
                raise
        follow(tail.new_lines())
        if program.returncode:
            raise LoggedProgramError(end_of_log(log))
        printed.seek(0)
        return printed.read()


def end_of_log(log: Path) -> str:
    last = log.read_text(errors="replace").rstrip().splitlines()[-_LAST_LINES:]
    return "\n".join([*last, f"All of it: {log}"])
