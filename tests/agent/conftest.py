"""A simulated GPU node for the agent's own code in this process, and agents on a real control plane."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.on_cluster import GpuNode, install
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.state.records import Records
from gpusharing.core.publishing.mig_at_rest import AS_IT_IS, Cut
from gpusharing.nvidia.hardware import Hardware
from harness.controlplane import ControlPlane


@pytest.fixture(autouse=True)
def no_other_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's shell may have sourced the `env` of a node."""
    for variable in ("GPUSHARING_SIM_STATE", "LD_LIBRARY_PATH", "LD_PRELOAD"):
        monkeypatch.delenv(variable, raising=False)


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
