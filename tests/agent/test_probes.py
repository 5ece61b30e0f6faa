"""What the kubelet's probes are told while the driver is away or hangs."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.agent import endpoints
from gpusharing.agent.claims.reading import ClaimRef
from gpusharing.agent.kubelet.health_stream import HealthService
from gpusharing.agent.kubelet.server import PluginServer
from gpusharing.agent.kubelet.service import DraService
from gpusharing.agent.start import Start
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.kube.http_server import Pages
from gpusharing.kube.watches import Watches
from gpusharing.nvidia.errors import DriverHungError
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import faults
from harness.eventually import PATIENCE
from nvidia.nodes import SHORT, opened, uuid


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode) -> AsyncIterator[Hardware]:
    async with opened(node, patience=SHORT) as opened_hardware:
        yield opened_hardware


async def _never(_: ClaimRef, within: float) -> PreparedClaim:
    raise AssertionError


async def _never_back(_: ClaimRef, within: float) -> None:
    raise AssertionError


def pages_of(start: Start, directory: Path) -> Pages:
    async def no_metrics() -> bytes:
        raise AssertionError

    stream = HealthService(list, lambda _: ())
    server = PluginServer(DraService(_never, _never_back), stream, kubelet_root=directory, driver="d")
    server._service._unregistered_since = None
    return endpoints.pages(start=start, server=server, is_published=lambda: True, watches=Watches(), metrics=no_metrics)


async def test_an_agent_whose_driver_hangs_is_alive_and_ready(
    node: sim.SimNode, hardware: Hardware, tmp_path: Path
) -> None:
    """Another agent would find the same driver; this one still gives pods back, and says what is wrong."""
    start = Start()
    start.gpus_known.set()
    pages = pages_of(start, tmp_path)
    node.inject(faults.CallHangs("nvmlDeviceGetComputeMode", 2 * PATIENCE))
    with pytest.raises(DriverHungError):
        await hardware.compute_mode(uuid(node))
    for path in ("/healthz", "/readyz"):
        answer = await asyncio.wait_for(pages[path](), PATIENCE)
        assert (answer.status, answer.body) == (HTTPStatus.OK, b"ok\n")


async def test_before_the_driver_has_told_of_the_gpus_it_is_alive_and_not_ready(tmp_path: Path) -> None:
    start = Start()
    pages = pages_of(start, tmp_path)
    assert (await pages["/healthz"]()).status == HTTPStatus.OK
    assert (await pages["/readyz"]()).body == b"the GPUs of this node are not known yet\n"
    start.problem = DriverHungError("the GPU driver has not answered nvmlInit for 21.0 s")
    assert (await pages["/readyz"]()).body.startswith(b"the GPU driver has not answered nvmlInit for 21.0 s")
    assert (await pages["/healthz"]()).status == HTTPStatus.OK
