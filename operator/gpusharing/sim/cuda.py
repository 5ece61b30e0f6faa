"""Simulated CUDA processes: real processes that use the GPUs of a simulated node as programs with CUDA would."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gpusharing.sim.errors import SimError
from gpusharing.sim.node import SimNode
from gpusharing.sim.state import Timeslice

PROGRAM = "cuda-process"

_ERROR = re.compile(r"CUDA error (\d+): (\w+)")
_END_TIMEOUT = 10


@dataclass(frozen=True)
class Options:
    """What a CUDA process is to do. Without `gpu` and `mps_pipe` its environment decides, as for a real one."""

    gpu: str | None = None
    """An index, or the UUID of a GPU or a MIG device."""
    memory: str = "256M"
    utilization: int = 0
    """Percent of the GPU that its work keeps busy."""
    mps_pipe: Path | None = None
    cgroup: Path | None = None
    """Is held to the limits of this cgroup instead of its own."""
    dev: Path | None = None
    """Sees only the devices that have files here, as in a container's /dev."""
    heartbeat: Path | None = None
    """Is written every 10 ms: see `read_heartbeat`."""
    seconds: float | None = None
    """Ends by itself after this time."""


@dataclass(frozen=True)
class Lease:
    """What the process got. Memory is in bytes."""

    pid: int
    device: str
    memory: int
    memory_limit: int | None
    """Of MPS."""
    active_thread_percentage: float
    timeslice: Timeslice
    """As it was when the process began: only new ones get another."""
    mps_server: int | None


class CudaError(SimError):
    def __init__(self, code: int, name: str) -> None:
        super().__init__(f"CUDA error {code}: {name}")
        self.code = code
        self.name = name


@dataclass(frozen=True)
class Heartbeat:
    pid: int
    count: int
    last: float
    """`time.monotonic()` of the last one."""
    longest_gap: float
    """The longest time in seconds that ever lay between two."""


def command(node: SimNode, options: Options) -> list[str]:
    arguments = {
        "--gpu": options.gpu,
        "--memory": options.memory,
        "--utilization": options.utilization,
        "--mps-pipe": options.mps_pipe,
        "--cgroup": options.cgroup,
        "--dev": options.dev,
        "--heartbeat": options.heartbeat,
        "--seconds": options.seconds,
    }
    given = [f"{name}={value}" for name, value in arguments.items() if value is not None]
    return [os.fspath(node.programs / PROGRAM), *given]


def execute(node: SimNode, options: Options) -> NoReturn:
    """Become that process."""
    words = command(node, options)
    os.execve(words[0], words, node.environment())  # noqa: S606


class CudaProcess:
    """A process that has its device."""

    def __init__(self, process: subprocess.Popen[str], lease: Lease) -> None:
        self._process = process
        self.lease = lease

    @property
    def pid(self) -> int:
        return self.lease.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def fault(self) -> None:
        """Let its work fail as a faulty kernel does; with MPS this hits the other clients of the GPU as well."""
        self._process.send_signal(signal.SIGUSR1)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(_END_TIMEOUT)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self._process.terminate()
        return self._process.wait(_END_TIMEOUT)

    def error(self) -> CudaError:
        """The error that ends it, awaited."""
        _, errors = self._process.communicate(timeout=_END_TIMEOUT)
        return _cuda_error(errors)


@contextmanager
def running(
    node: SimNode, options: Options | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[CudaProcess]:
    """A CUDA process, killed at the end if it still runs. Raises CudaError if it does not get what it wants."""
    with subprocess.Popen(
        command(node, options or Options()),
        env=node.environment() if environment is None else environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield CudaProcess(process, _lease(process))
        finally:
            process.kill()


def read_heartbeat(path: Path) -> Heartbeat:
    pid, count, last, longest_gap = map(int, path.read_text().split())
    return Heartbeat(pid=pid, count=count, last=last / 1e9, longest_gap=longest_gap / 1e9)


def _lease(process: subprocess.Popen[str]) -> Lease:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        _, errors = process.communicate()
        raise _cuda_error(errors)
    got = json.loads(line)
    return Lease(**{**got, "timeslice": Timeslice(got["timeslice"])})


def _cuda_error(errors: str) -> CudaError:
    found = _ERROR.search(errors)
    if found is None:
        raise SimError(f"the simulated CUDA process failed: {errors}")
    return CudaError(int(found[1]), found[2])
