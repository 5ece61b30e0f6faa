"""State files that a library or a program was not made for."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from gpusharing import sim
from gpusharing.sim import store

Smi = Callable[..., "CompletedProcess[str]"]


def test_other_layout_version(node: sim.SimNode, smi: Smi) -> None:
    with store.locked(node.state) as state:
        state.layout += 1
    _assert_refused(node, smi, "layout version")


def test_other_file(node: sim.SimNode, smi: Smi) -> None:
    with store.locked(node.state) as state:
        state.magic = 1
    _assert_refused(node, smi, "not the state of a simulated node")


def test_short_file(node: sim.SimNode, smi: Smi) -> None:
    node.state.write_bytes(node.state.read_bytes()[:100])
    _assert_refused(node, smi, "too short")


def test_no_file(node: sim.SimNode, smi: Smi) -> None:
    node.state.unlink()
    result = smi("-L")
    assert result.returncode == 9
    assert result.stdout == "Failed to initialize NVML: Driver Not Loaded\n"
    # The last place that is looked at.
    assert "/dev/.sim/state: No such file or directory" in result.stderr
    with pytest.raises(sim.SimError, match="is not a simulated GPU node"):
        sim.SimNode.open(node.directory)


def _assert_refused(node: sim.SimNode, smi: Smi, reason: str) -> None:
    result = smi("-L")
    assert result.returncode == 255
    assert result.stdout == "Failed to initialize NVML: Unknown Error\n"
    assert str(node.state) in result.stderr
    assert reason in result.stderr
    with pytest.raises(sim.SimError, match=reason):
        sim.SimNode.open(node.directory)
