"""How busy a GPU is with which process, as NVML tells it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pynvml
import pytest

from gpusharing import sim
from gpusharing.sim import Quirk
from gpusharing.sim.state import ProcessKind
from sim import calls
from sim.conftest import UseNvml

GARBAGE = 2147483632


@pytest.fixture
def node(tmp_path: Path, use_nvml: UseNvml) -> sim.SimNode:
    node = sim.create(tmp_path / "node", "H100-80GB:2")
    use_nvml(node)
    return node


def run(node: sim.SimNode, processes: Iterable[tuple[int, int, ProcessKind]]) -> None:
    for pid, utilization, kind in processes:
        node.start_process(node.gpus()[0].uuid, pid, 1 << 20, kind, utilization=utilization)


def samples(since: int = 0, gpu: int = 0) -> list[tuple[int, int]]:
    found = pynvml.nvmlDeviceGetProcessUtilization(calls.gpu(gpu), since)
    return sorted((sample.pid, sample.smUtil) for sample in found)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param([(11, 40)], [(11, 40)], id="one"),
        pytest.param([(11, 40), (12, 0)], [(11, 40)], id="whoever does not compute has no sample"),
        pytest.param([(11, 100), (12, 50), (13, 50)], [(11, 50), (12, 25), (13, 25)], id="no more than all of it"),
    ],
)
def test_samples(node: sim.SimNode, wanted: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    run(node, [(*one, ProcessKind.COMPUTE) for one in wanted])
    assert samples() == expected
    with pytest.raises(pynvml.NVMLError_NotFound):
        samples(gpu=1)


def test_nothing_new_is_not_found(node: sim.SimNode) -> None:
    run(node, [(11, 40, ProcessKind.COMPUTE)])
    (sample,) = pynvml.nvmlDeviceGetProcessUtilization(calls.gpu(0), 0)
    now = time.time() * 1e6
    assert now - 10e6 < sample.timeStamp <= now
    with pytest.raises(pynvml.NVMLError_NotFound):
        samples(since=int(now + 60e6))


@pytest.mark.usefixtures("root")
def test_not_with_mig(node: sim.SimNode) -> None:
    calls.enable_mig(0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        samples()


def test_clients_of_mps_have_their_own(node: sim.SimNode) -> None:
    run(node, [(11, 0, ProcessKind.COMPUTE), (12, 30, ProcessKind.MPS_CLIENT), (13, 20, ProcessKind.MPS_CLIENT)])
    assert samples() == [(12, 30), (13, 20)]


def test_odd_samples(tmp_path: Path, use_nvml: UseNvml) -> None:
    node = sim.create(tmp_path / "odd", "H100-80GB", quirks=Quirk.ODD_SAMPLES)
    use_nvml(node)
    run(node, [(11, 0, ProcessKind.COMPUTE), (12, 30, ProcessKind.MPS_CLIENT)])
    assert samples() == [(11, 30), (12, GARBAGE)]
