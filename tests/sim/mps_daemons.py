"""MPS control daemons of a simulated node: the node's program, started as the agent or a person would."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from gpusharing import sim
from gpusharing.sim import cuda, mps
from harness.ending import end_all
from harness.eventually import PATIENCE
from harness.scratch import programs_below

TIMEOUT = 20
NO_DAEMON = "Cannot find MPS control daemon process\n"


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


@contextmanager
def started(command: Sequence[str | Path], environment: Mapping[str, str], **options: Any) -> Iterator[Popen[str]]:
    """Killed at the end: what a test waits for in vain must not keep it from failing."""
    pipe = subprocess.PIPE
    with Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe, stderr=pipe, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()
    return line


def error_of(
    node: sim.SimNode, options: cuda.Options | None = None, environment: Mapping[str, str] | None = None
) -> int:
    """The CUDA error of a process that does not get what it wants."""
    with pytest.raises(cuda.CudaError) as raised, cuda.running(node, options, environment):
        pass
    return raised.value.code


@dataclass(frozen=True)
class MpsDirectory:
    """A pipe and a log directory, and the daemon that may be there."""

    node: sim.SimNode
    path: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the daemon's environment."""

    @property
    def pipe(self) -> Path:
        return self.path / "pipe"

    @property
    def control_log(self) -> str:
        return (self.path / "log/control.log").read_text()

    @property
    def server_log(self) -> str:
        return (self.path / "log/server.log").read_text()

    @property
    def environment(self) -> dict[str, str]:
        return {
            **self.node.environment(),
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self.path / "log"),
            **self.settings,
        }

    @property
    def program(self) -> str:
        return os.fspath(self.node.directory / "bin" / mps.CONTROL)

    def run(self, *options: str, commands: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *options],
            env=self.environment,
            input=commands,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )

    def start(self, *options: str) -> None:
        """A daemon in the background that answers."""
        started = self.run("-d", *options)
        assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
        eventually(self.answers)

    def answers(self) -> bool:
        return self.run(commands="get_default_active_thread_percentage\n").returncode == 0

    def ask(self, command: str) -> str:
        answer = self.run(commands=f"{command}\n")
        assert (answer.returncode, answer.stderr) == (0, "")
        return answer.stdout

    def servers(self) -> list[int]:
        return [int(line) for line in self.ask("get_server_list").split()]

    def server(self) -> int:
        """The only one."""
        (server,) = self.servers()
        return server

    def clients(self, server: int) -> set[int]:
        return {int(line) for line in self.ask(f"get_client_list {server}").split()}

    def status(self, server: int) -> str:
        return self.ask(f"get_server_status {server}").strip()

    def client(self, gpu: str | None = None, memory: str = "256M", heartbeat: Path | None = None) -> cuda.Options:
        return cuda.Options(mps_pipe=self.pipe, gpu=gpu, memory=memory, heartbeat=heartbeat)


def programs_of(node: sim.SimNode) -> list[int]:
    return programs_below(node.directory / "bin")


def kill_programs_of(node: sim.SimNode) -> None:
    end_all(lambda: programs_of(node))
