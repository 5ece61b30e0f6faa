from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpusharing import sim
from sim.mps_daemons import MpsDirectory, kill_programs_of

PROGRAMS = Path(__file__).parent / "programs"

Smi = Callable[..., "subprocess.CompletedProcess[str]"]
RunProgram = Callable[..., Any]
UseNvml = Callable[[sim.SimNode], None]


@pytest.fixture(autouse=True)
def no_other_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's shell may have sourced the `env` of a node."""
    for variable in ("GPUSHARING_SIM_STATE", "LD_LIBRARY_PATH", "LD_PRELOAD"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    return sim.create(tmp_path / "node", "H100-80GB:2,L4:1", seed="tests")


@pytest.fixture
def root() -> None:
    if os.geteuid() != 0:
        pytest.skip("settings of the driver are for root only")


@pytest.fixture
def smi(node: sim.SimNode) -> Smi:
    """Runs the node's nvidia-smi by its path, without any environment."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [str(node.nvidia_smi), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20, **options)

    return run


@pytest.fixture
def run_program() -> RunProgram:
    """Runs one of `programs` with a fresh interpreter; what it prints is JSON."""

    def run(name: str, *arguments: str, **options: Any) -> Any:
        command = [sys.executable, str(PROGRAMS / name), *arguments]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60, **options)
        return json.loads(result.stdout)

    return run


@pytest.fixture
def use_nvml(monkeypatch: pytest.MonkeyPatch) -> UseNvml:
    """Initialises this process' nvidia-ml-py with the library of a node, as if it had never seen another."""

    def use(node: sim.SimNode) -> None:
        monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(node.library)))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        pynvml.nvmlInit()

    return use


@pytest.fixture
def mps_directory(node: sim.SimNode) -> Iterator[MpsDirectory]:
    """With a name short enough for a socket. Nothing that a test starts on the node outlives it."""
    path = Path(tempfile.mkdtemp(prefix="mps-", dir="/tmp"))
    yield MpsDirectory(node, path)
    kill_programs_of(node)
    shutil.rmtree(path)


@pytest.fixture
def daemon(mps_directory: MpsDirectory) -> MpsDirectory:
    mps_directory.start()
    return mps_directory
