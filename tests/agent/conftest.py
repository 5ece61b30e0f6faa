"""A simulated GPU node for the agent's own code in this process, and agents on a real control plane."""

import asyncio
import ctypes
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest
import pytest_asyncio

from agent.on_cluster import GpuNode, install
from building.properties import load_profile
from gpusharing import sim
from gpusharing.agent.hardware.node import Hardware
from gpusharing.agent.records import Records
from gpusharing.agent.settling.settler import Settler
from gpusharing.core.publishing.mig_at_rest import AS_IT_IS, Cut
from harness.controlplane import ControlPlane

load_profile()

RecordEvent = Callable[[str], None]


@pytest.fixture(autouse=True)
def no_other_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's shell may have sourced the `env` of a node."""
    for variable in ("GPUSHARING_SIM_STATE", "LD_LIBRARY_PATH", "LD_PRELOAD"):
        monkeypatch.delenv(variable, raising=False)


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
    hardware = Hardware(node.directory, sysfs_root=node.sys)
    await hardware.open()
    yield hardware
    await hardware.close()


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "state")


def settler_of(
    hardware: Hardware, records: Records, mps_home: Path | None = None, *, at_rest: Cut = AS_IT_IS
) -> Settler:
    return Settler(hardware, records, mps_home=mps_home or Path("/nowhere"), at_rest=lambda _: at_rest)


def run(main: Coroutine[Any, Any, None]) -> None:
    """For properties, whose examples each need a loop of their own."""
    asyncio.run(main)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def installed(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with everything that `kubectl apply -k manifests/base` gives."""
    await install(control_plane)
    return control_plane


@pytest_asyncio.fixture
async def gpu_node(installed: ControlPlane) -> AsyncIterator[GpuNode]:
    """A Node with two simulated H100 on which an agent runs."""
    async with GpuNode(installed) as node:
        yield node
