"""The kubelet's gRPC API on real sockets, without anything behind it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from agent.on_cluster import Claim, Kubelet
from agent.samples import prepared_claim
from gpusharing.agent.claims.reading import ClaimRef, PrepareError
from gpusharing.agent.kubelet.health_stream import HealthService
from gpusharing.agent.kubelet.server import PluginServer
from gpusharing.agent.kubelet.service import DraService
from gpusharing.agent.state.models import PreparedClaim
from harness.eventually import PATIENCE

GOOD, REFUSED, BROKEN = (Claim(f"uid-{name}", name) for name in ("good", "refused", "broken"))


async def _prepare(claim: ClaimRef, _: float) -> PreparedClaim:
    match claim.name:
        case "refused":
            raise PrepareError("claim default/refused: no")
        case "broken":
            raise RuntimeError("a mistake of ours")
    return prepared_claim(claim.name)


async def _unprepare(claim: ClaimRef, within: float) -> None:
    await _prepare(claim, within)


def nobody_ill() -> HealthService:
    return HealthService(list, lambda _: ())


@asynccontextmanager
async def serving(
    tmp_path: Path, prepare: Callable[[ClaimRef, float], Awaitable[PreparedClaim]] = _prepare
) -> AsyncIterator[PluginServer]:
    service = DraService(prepare, _unprepare)
    async with PluginServer(service, nobody_ill(), kubelet_root=tmp_path, driver="d") as server:
        await server.renew()
        yield server


@pytest_asyncio.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[Kubelet]:
    async with serving(tmp_path):
        yield Kubelet(tmp_path / "plugins/d/dra.sock")


async def test_mistake_of_ours_concerns_one_claim_only(kubelet: Kubelet) -> None:
    """An error of the whole call would take the answers for all other claims of the pod with it."""
    answers = await kubelet.prepare(REFUSED, BROKEN, GOOD)
    assert [len(answers[claim.uid].devices) for claim in (REFUSED, BROKEN, GOOD)] == [0, 0, 1]
    assert answers[REFUSED.uid].error == "claim default/refused: no"
    assert "claim default/broken: RuntimeError: a mistake of ours" in answers[BROKEN.uid].error
    assert not answers[GOOD.uid].error

    errors = await kubelet.unprepare(REFUSED, BROKEN, GOOD)
    assert errors[REFUSED.uid] == "claim default/refused: no"
    assert "claim default/broken: RuntimeError: a mistake of ours" in errors[BROKEN.uid]
    assert not errors[GOOD.uid]


async def test_sockets_come_and_go(tmp_path: Path) -> None:
    plugin, registration = tmp_path / "plugins/d/dra.sock", tmp_path / "plugins_registry/d-reg.sock"
    # As a killed predecessor leaves it.
    plugin.parent.mkdir(parents=True)
    async with serving(tmp_path):
        assert plugin.is_socket()
        assert registration.is_socket()
    assert not plugin.exists()
    assert not registration.exists()


async def test_call_that_is_under_way_does_not_hold_up_the_end(tmp_path: Path) -> None:
    called = asyncio.Event()

    async def hangs(claim: ClaimRef, within: float) -> PreparedClaim:
        called.set()
        await asyncio.sleep(60)
        raise AssertionError

    async with asyncio.timeout(PATIENCE / 2):
        async with serving(tmp_path, hangs):
            call = asyncio.create_task(Kubelet(tmp_path / "plugins/d/dra.sock").prepare(GOOD))
            await called.wait()
    # This server's process goes on, and with it the connection.
    call.cancel()
    await asyncio.wait({call})
    # The server, which is in this process, sees that the connection is closed.
    await asyncio.sleep(0.05)


def test_path_that_no_socket_can_have(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is longer than 107 bytes: set a shorter --kubelet-root"):
        PluginServer(DraService(_prepare, _unprepare), nobody_ill(), kubelet_root=tmp_path / ("x" * 80), driver="d")
