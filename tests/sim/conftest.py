from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpusharing import sim

PROGRAMS = Path(__file__).parent / "programs"

Smi = Callable[..., "subprocess.CompletedProcess[str]"]
RunProgram = Callable[..., Any]


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
