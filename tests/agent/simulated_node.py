"""The simulated GPU node on which the agent's own code runs in this process: fixtures of all tests (`conftest.py`)."""

import ctypes
from collections.abc import AsyncIterator, Callable, Iterator

import pynvml
import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.nvidia.hardware import Hardware

RecordEvent = Callable[[str], None]


@pytest.fixture(scope="session")
def installed_node(tmp_path_factory: pytest.TempPathFactory) -> sim.SimNode:
    """One for the whole process: the driver's library finds its state once."""
    node = sim.create(tmp_path_factory.mktemp("sim") / "node", "H100-80GB:2,L4:1", seed="agent")
    # pynvml would take any library of this name that some other test has loaded before.
    pynvml.nvmlLib = ctypes.CDLL(str(node.library), mode=ctypes.RTLD_GLOBAL)
    return node


def reset(node: sim.SimNode) -> None:
    for gpu in node.gpus():
        node.set_timeslice(gpu.uuid, sim.Timeslice.DEFAULT)
        node.set_compute_mode(gpu.uuid, sim.ComputeMode.DEFAULT)


@pytest.fixture
def node(installed_node: sim.SimNode) -> sim.SimNode:
    """Two H100 and an L4, set as they came."""
    reset(installed_node)
    return installed_node


@pytest.fixture
def smi_script(node: sim.SimNode) -> Iterator[RecordEvent]:
    """Puts a shell script in place of nvidia-smi; the real one is beside it as nvidia-smi.real."""
    real = node.nvidia_smi.with_name("nvidia-smi.real")
    node.nvidia_smi.rename(real)

    def put(script: str) -> None:
        # Aside first: a program that runs cannot be written to.
        aside = node.nvidia_smi.with_name("new")
        aside.write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
        aside.chmod(0o755)
        aside.rename(node.nvidia_smi)

    put('exec "$REAL" "$@"')
    yield put
    real.rename(node.nvidia_smi)


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode) -> AsyncIterator[Hardware]:
    """The agent's real one, on the simulated GPUs."""
    hardware = Hardware(node.directory, sysfs_root=node.sys, proc_root=node.proc, dev_root=node.dev)
    await hardware.open()
    yield hardware
    await hardware.close()
