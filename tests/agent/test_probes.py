"""What the kubelet's probes are told while the driver hangs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.hardware.nodes import SHORT, opened, uuid
from gpusharing import sim
from gpusharing.agent import endpoints
from gpusharing.agent.dra.health import HealthService
from gpusharing.agent.dra.server import PluginServer
from gpusharing.agent.dra.service import DraService
from gpusharing.agent.hardware.errors import DriverHungError
from gpusharing.agent.hardware.node import Hardware
from gpusharing.agent.prepare import ClaimRef
from gpusharing.agent.records import PreparedClaim
from gpusharing.kube.watches import Watches
from gpusharing.sim import faults
from harness.eventually import PATIENCE, eventually


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode) -> AsyncIterator[Hardware]:
    async with opened(node, patience=SHORT) as opened_hardware:
        yield opened_hardware


async def _never(_: ClaimRef) -> PreparedClaim:
    raise AssertionError


async def _never_back(_: ClaimRef) -> None:
    raise AssertionError


async def test_an_agent_whose_driver_hangs_is_not_alive_until_it_answers(
    node: sim.SimNode, hardware: Hardware, tmp_path: Path
) -> None:
    async def no_metrics() -> bytes:
        raise AssertionError

    stream = HealthService(list, lambda _: ())
    server = PluginServer(DraService(_never, _never_back), stream, kubelet_root=tmp_path, driver="d")
    pages = endpoints.pages(
        hardware=hardware, server=server, is_published=lambda: True, watches=Watches(), metrics=no_metrics
    )
    assert (await pages["/healthz"]()).body == b"ok\n"
    node.inject(faults.CallHangs("nvmlDeviceGetComputeMode", 2 * PATIENCE))
    with pytest.raises(DriverHungError):
        await hardware.compute_mode(uuid(node))
    answer = await asyncio.wait_for(pages["/healthz"](), PATIENCE)
    assert answer.status == 503
    assert answer.body.startswith(b"the GPU driver has not answered nvmlDeviceGetComputeMode for ")
    node.clear()

    async def answers_again() -> None:
        assert (await pages["/healthz"]()).status == 200

    await eventually(answers_again)
