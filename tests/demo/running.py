"""`gpusharing demo`, started as people start it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.eventually import PATIENCE

# Without a right, and with an own number: as an ordinary user has it, who also may have namespaces of users.
_ORDINARY: Final = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
HAS_NAMESPACES: Final = (
    subprocess.run([*_ORDINARY, "unshare", "--user", "--map-root-user", "true"], check=False).returncode == 0
)
_DIRECTORY: Final = re.compile(r"/tmp/gpus-\w+")


class Demo:
    """Its lines, as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def until(self, pattern: str) -> str:
        """The first line that matches."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if re.search(pattern, line):
                return self.lines[-1]
        self.process.wait()
        raise AssertionError(f"no line {pattern!r} in\n{self.text}")

    def ended(self) -> int:
        """Its exit code."""
        assert self.process.stdout
        self.lines += self.process.stdout.read().splitlines()
        return self.process.wait()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def programs(self) -> dict[int, str]:
        """What it has started, and what these have started: their command lines."""
        return dict(_below(self.process.pid))


@contextmanager
def demo(*arguments: str, ordinary: bool = False) -> Iterator[Demo]:
    """Killed at the end, if it has not ended."""
    with subprocess.Popen(
        [*(_ORDINARY if ordinary else ()), sys.executable, "-m", "gpusharing", "demo", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    ) as process:
        try:
            yield Demo(process)
        finally:
            process.kill()


def eventually(check: Callable[[], bool], why: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


def nothing_is_left(pids: set[int], directory: Path) -> None:
    """Of these processes, and of the directory."""

    def left() -> list[str]:
        return [f"{pid} {command}" for pid, command in _all() if pid in pids]

    eventually(lambda: not left() and not directory.exists(), lambda: (left(), directory.exists()))


def directory_of(programs: dict[int, str]) -> Path:
    return Path(next(found[0] for command in programs.values() if (found := _DIRECTORY.search(command))))


def _all() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue


def _below(parent: int) -> Iterator[tuple[int, str]]:
    """MPS daemons have another parent: they are known by their programs."""
    commands = dict(_all())
    parents = {pid: _parent(pid) for pid in commands}
    found = {parent}
    while more := {pid for pid, above in parents.items() if above in found} - found:
        found |= more
    directories = {one[0] for pid in found if (one := _DIRECTORY.search(commands.get(pid, "")))}
    for pid, command in commands.items():
        if (pid in found and pid != parent) or any(one in _program(pid) for one in directories):
            yield pid, command


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _program(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""
