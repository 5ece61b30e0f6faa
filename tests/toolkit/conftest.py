"""NVIDIA's own programs on simulated nodes."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tools(nvidia_tools: Path) -> Path:
    """The directory with NVIDIA's programs."""
    return nvidia_tools


@pytest.fixture(autouse=True)
def no_other_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's shell may have sourced the `env` of a node."""
    for variable in ("GPUSHARING_SIM_STATE", "LD_LIBRARY_PATH", "LD_PRELOAD"):
        monkeypatch.delenv(variable, raising=False)
