"""The GPUs of a forecast are those that an agent would find on such a node."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gpusharing import sim
from gpusharing.core.devices.gpu import Board
from gpusharing.forecasting.boards import boards
from gpusharing.sim import MODELS, SimError
from gpusharing.sim.drivers import KNOWN, Driver, find_driver
from gpusharing.sim.models import parse_gpus

# The driver's library finds its node once in a process.
_READ: Final = """
import asyncio, pickle, sys
from pathlib import Path
from gpusharing.nvidia.hardware import Hardware

async def read(root):
    hardware = Hardware(root, sysfs_root=root / "sys", proc_root=root / "proc", dev_root=root / "dev")
    await hardware.open()
    found = (await hardware.inventory()).boards
    await hardware.close()
    return found

sys.stdout.buffer.write(pickle.dumps(asyncio.run(read(Path(sys.argv[1])))))
"""


def found_by_an_agent(node: sim.SimNode) -> list[Board]:
    done = subprocess.run([sys.executable, "-c", _READ, node.directory], check=True, capture_output=True)
    read: list[Board] = pickle.loads(done.stdout)  # noqa: S301 (our own)
    return read


def ordered(found: list[Board]) -> list[Board]:
    return [replace(board, uuid="") for board in sorted(found, key=lambda board: board.minor)]


@pytest.mark.parametrize("driver", KNOWN, ids=lambda driver: driver.version)
def test_every_model_with_every_driver(tmp_path: Path, driver: Driver) -> None:
    supported = [model.name for model in MODELS.values() if model.driver <= driver.branch]
    gpus = ",".join(f"{name}:2" for name in supported)
    node = sim.create(tmp_path / "node", gpus, seed="forecast", driver=driver.version)
    assert ordered(boards(parse_gpus(gpus), driver, node="n")) == ordered(found_by_an_agent(node))


def test_the_same_node_has_the_same_gpus_and_each_its_own_uuid() -> None:
    models, driver = parse_gpus("L4:8"), find_driver("580")
    first = boards(models, driver, node="a")
    assert first == boards(models, driver, node="a")
    uuids = {board.uuid for board in (*first, *boards(models, driver, node="b"))}
    assert len(uuids) == 16


@pytest.mark.parametrize(
    ("gpus", "driver", "problem"),
    [
        ("B200", "535", "driver 535.261.03 does not support B200, which needs 570 or newer"),
        ("L4:20,T4:13", "580", "a node has at most 32 GPUs"),
        ("L4:9999999999", "580", "a node has at most 32 GPUs"),
        ("L4:" + 5000 * "9", "580", "a node has at most 32 GPUs"),
    ],
)
def test_nodes_that_cannot_be(gpus: str, driver: str, problem: str) -> None:
    with pytest.raises(SimError, match=problem):
        boards(parse_gpus(gpus), find_driver(driver), node="n")
