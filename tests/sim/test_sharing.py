"""Several processes on one node at the same time, and what is left when one of them is killed."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest

from gpusharing import sim
from gpusharing.sim import store
from sim import calls
from sim.conftest import UseNvml

Smi = Callable[..., "subprocess.CompletedProcess[str]"]
RunProgram = Callable[..., Any]

PROGRAMS = Path(__file__).parent / "programs"


@contextmanager
def running(node: sim.SimNode, program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has said its first line; killed at the end."""
    command = [sys.executable, str(PROGRAMS / program), *arguments]
    with subprocess.Popen(command, env=node.environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_no_update_is_lost(node: sim.SimNode) -> None:
    uuid = node.gpus()[0].uuid
    writers = [
        subprocess.Popen(
            [sys.executable, str(PROGRAMS / "start_processes.py"), str(node.directory), uuid, str(first), "30"],
            stdout=subprocess.DEVNULL,
        )
        for first in (1000, 2000, 3000, 4000)
    ]
    assert [writer.wait(30) for writer in writers] == [0, 0, 0, 0]
    processes = node.gpus()[0].processes
    assert {process.pid for process in processes} == {
        pid for first in (1000, 2000, 3000, 4000) for pid in range(first, first + 30)
    }
    assert len(processes) == 120


def test_lock_excludes_the_library(node: sim.SimNode) -> None:
    """Another process and a thread of this one wait until Python has released the state."""
    library = ctypes.CDLL(str(node.library))
    assert library.nvmlInit_v2() == 0
    thread = threading.Thread(target=library.nvmlDeviceGetCount_v2, args=[ctypes.byref(ctypes.c_uint())])
    with store.locked(node.state):
        process = subprocess.Popen([node.nvidia_smi, "-L"], stdout=subprocess.DEVNULL)
        thread.start()
        time.sleep(0.3)
        assert process.poll() is None
        assert thread.is_alive()
    assert process.wait(10) == 0
    thread.join(10)
    assert not thread.is_alive()


def test_killed_holder_of_the_lock(node: sim.SimNode, smi: Smi) -> None:
    with running(node, "hold_lock.py", str(node.state)) as holder:
        waiting = subprocess.Popen([node.nvidia_smi, "-L"], stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        assert waiting.poll() is None
        holder.kill()
        assert waiting.wait(10) == 0
    assert smi("-L").returncode == 0
    assert len(node.gpus()) == 3


def test_killed_writers(node: sim.SimNode, run_program: RunProgram) -> None:
    uuid = node.gpus()[1].uuid
    with running(node, "hammer.py") as survivor:
        for _ in range(6):
            with running(node, "hammer.py") as victim:
                victim.kill()
                victim.wait()
                node.start_process(uuid, victim.pid, 1024)
                node.stop_process(uuid, victim.pid)
        assert survivor.poll() is None
        report = run_program("inventory.py", env=node.environment())
    assert report["gpus"][0]["compute mode"] in (0, 3)
    assert report["gpus"][1]["compute"] == []


@pytest.mark.usefixtures("root")
def test_killed_in_the_middle_of_mig(tmp_path: Path, use_nvml: UseNvml) -> None:
    """Three programs cut the same GPU at random, and one after the other is killed. What is left is whole."""
    node = sim.create(tmp_path / "mig", "H100-80GB")
    use_nvml(node)
    gpu = calls.enable_mig()
    with running(node, "mig_hammer.py", "a") as survivor, running(node, "mig_hammer.py", "b") as other:
        for round_ in range(15):
            with running(node, "mig_hammer.py", str(round_)) as victim:
                time.sleep(0.01 * round_)
                victim.kill()
                victim.wait()
                assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
        assert survivor.poll() is None
        assert other.poll() is None
    # Whoever comes next completes what the last two were about when they were killed.
    assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
    calls.expect_whole(node)
    with running(node, "mig_hammer.py", "c"):
        time.sleep(0.2)


def test_threads(node: sim.SimNode) -> None:
    """All threads of a process share a descriptor, so the lock of the file alone would not keep them apart."""
    library = ctypes.CDLL(str(node.library))
    assert library.nvmlInit_v2() == 0
    gpu = ctypes.c_void_p()
    assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu)) == 0
    errors = []

    def work() -> None:
        for mode in (0, 3) * 200:
            errors.append(library.nvmlDeviceSetComputeMode(gpu, mode))
            errors.append(library.nvmlDeviceGetComputeMode(gpu, ctypes.byref(ctypes.c_uint())))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(errors) == 4 * 400 * 2
    if os.geteuid() == 0:
        assert set(errors) == {0}


def test_fork(node: sim.SimNode, run_program: RunProgram) -> None:
    assert run_program("fork.py", env=node.environment()) == 0
