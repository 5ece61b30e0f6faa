"""A machine that has the GPUs of a simulated node: with its /proc, and with cgroup v2, also where this one has v1."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from gpusharing import sim
from harness.privileges import need_root_of_machine
from harness.processes import DIES_WITH_PARENT

CGROUPS = "/sys/fs/cgroup"

_MOUNT = f"""
mount --bind "$0/proc/driver" /proc/driver
mount -t "$1" none {CGROUPS}
echo ready
exec sleep infinity
"""
# Becomes the command that follows, in a cgroup.
_ENTER = 'echo 0 > "$0/cgroup.procs" && exec "$@"'
_cgroups = count()


@dataclass(frozen=True)
class Machine:
    pid: int
    """Of a process whose view of the file system is this machine's."""

    def command(self, words: Sequence[str | Path], *, cgroup: str | None = None) -> list[str]:
        entering = ["sh", "-c", _ENTER, cgroup] if cgroup else []
        return ["nsenter", f"--mount=/proc/{self.pid}/ns/mnt", "--", *entering, *map(str, words)]

    def run(
        self, *words: str | Path, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(words),
            input=stdin,
            env={"PATH": os.environ["PATH"], **(environment or {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def seen_from_outside(self, path: str) -> Path:
        return Path(f"/proc/{self.pid}/root{path}")

    @contextmanager
    def cgroup(self) -> Iterator[str]:
        """Where it is on this machine."""
        path = f"{CGROUPS}/gpusharing-test-{os.getpid()}-{next(_cgroups)}"
        self.seen_from_outside(path).mkdir()
        try:
            yield path
        finally:
            self.seen_from_outside(path).rmdir()


@contextmanager
def machine(node: sim.SimNode, *, cgroups: str = "cgroup2") -> Iterator[Machine]:
    """Root only. `cgroups` is the file system that is mounted for them; where they are version 1, that is a tmpfs."""
    need_root_of_machine("make control groups")
    command = ["unshare", "--mount", "sh", "-euc", _MOUNT, os.fspath(node.directory), cgroups]
    with subprocess.Popen([*DIES_WITH_PARENT, *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", "no mount namespace could be made"
            yield Machine(process.pid)
        finally:
            process.kill()
