"""The sockets of a driver, while others remove, replace and serve them."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from agent.kubelet.registrar import info, notify
from agent.on_cluster import Claim, Kubelet
from agent.samples import prepared_claim
from gpusharing.agent.claims.reading import ClaimRef
from gpusharing.agent.kubelet.health_stream import HealthService
from gpusharing.agent.kubelet.server import PluginServer
from gpusharing.agent.kubelet.service import DraService
from gpusharing.agent.problems import SocketTakenError
from gpusharing.agent.state.models import PreparedClaim

CLAIM: Final = Claim("uid-a", "a")


async def _prepare(claim: ClaimRef, within: float) -> PreparedClaim:
    return prepared_claim(claim.name)


async def _unprepare(_: ClaimRef, within: float) -> None:
    pass


@asynccontextmanager
async def serving(
    root: Path, prepare: Callable[[ClaimRef, float], Awaitable[PreparedClaim]] = _prepare
) -> AsyncIterator[PluginServer]:
    service, health = DraService(prepare, _unprepare), HealthService(list, lambda _: ())
    async with PluginServer(service, health, kubelet_root=root, driver="d") as server:
        await server.renew()
        yield server


def endpoint(root: Path) -> Path:
    return root / "plugins/d/dra.sock"


def registration(root: Path) -> Path:
    return root / "plugins_registry/d-reg.sock"


async def answers(root: Path) -> bool:
    prepared = await Kubelet(endpoint(root)).prepare(CLAIM)
    return not prepared[CLAIM.uid].error and (await info(registration(root))).endpoint == str(endpoint(root))


def replace_by_a_dead_socket(path: Path) -> None:
    """As a program that was killed leaves it. The file system may give it the number of the one that was there."""
    path.unlink()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def remove(path: Path) -> None:
    path.unlink()


def remove_its_directory(path: Path) -> None:
    shutil.rmtree(path.parent)


def move_aside(path: Path) -> None:
    path.rename(path.with_name("aside"))


LOSSES: Final = (remove, remove_its_directory, replace_by_a_dead_socket, move_aside)


@pytest.mark.parametrize("which", [(endpoint,), (registration,), (endpoint, registration)])
@pytest.mark.parametrize("lose", LOSSES)
async def test_a_socket_that_is_lost_is_served_again(
    tmp_path: Path, lose: Callable[[Path], None], which: tuple[Callable[[Path], Path], ...]
) -> None:
    paths = tuple(path(tmp_path) for path in which)
    async with serving(tmp_path) as server:
        for _ in range(3):
            await notify(registration(tmp_path), registered=True)
            for path in paths:
                lose(path)
            assert await server.renew() == paths
            # The kubelet has forgotten a driver whose registration is gone, and calls when it sees it again.
            assert server.registered is (registration(tmp_path) not in paths)
            assert await answers(tmp_path)
    assert not endpoint(tmp_path).exists()
    assert not registration(tmp_path).exists()


async def test_nothing_is_served_again_while_nothing_is_missing(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await notify(registration(tmp_path), registered=True)
        before = [path(tmp_path).stat().st_ino for path in (endpoint, registration)]
        for _ in range(3):
            assert await server.renew() == ()
            assert await answers(tmp_path)
        assert [path(tmp_path).stat().st_ino for path in (endpoint, registration)] == before
        assert server.registered


async def test_a_call_in_flight_goes_on(tmp_path: Path) -> None:
    called, go_on = asyncio.Event(), asyncio.Event()

    async def slow(claim: ClaimRef, within: float) -> PreparedClaim:
        called.set()
        await go_on.wait()
        return prepared_claim(claim.name)

    async with serving(tmp_path, slow) as server:
        call = asyncio.create_task(Kubelet(endpoint(tmp_path)).prepare(CLAIM))
        await called.wait()
        endpoint(tmp_path).unlink()
        await server.renew()
        go_on.set()
        assert not (await call)[CLAIM.uid].error
        assert await answers(tmp_path)


async def test_a_program_that_serves_there_is_left_alone(tmp_path: Path) -> None:
    """Two drivers of one name: each would take the socket from the other for ever."""
    endpoint(tmp_path).parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(endpoint(tmp_path)))
        other.listen()
        service, health = DraService(_prepare, _unprepare), HealthService(list, lambda _: ())
        async with PluginServer(service, health, kubelet_root=tmp_path, driver="d") as server:
            for _ in range(2):
                with pytest.raises(SocketTakenError, match=f"{endpoint(tmp_path)}.*remove the other DRA driver"):
                    await server.renew()
                assert not registration(tmp_path).exists()
            other.close()
            # Nobody has removed ours.
            assert await server.renew() == ()
            assert await answers(tmp_path)


async def test_what_is_no_socket_is_named_and_left(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        endpoint(tmp_path).unlink()
        endpoint(tmp_path).mkdir()
        with pytest.raises(OSError, match=str(endpoint(tmp_path))):
            await server.renew()
        endpoint(tmp_path).rmdir()
        assert await server.renew() == (endpoint(tmp_path),)


async def test_losses_without_end_do_not_use_up_descriptors(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len([*Path("/proc/self/fd").iterdir()])

    async with serving(tmp_path) as server:
        for lost in range(40):
            registration(tmp_path).unlink()
            await server.renew()
            if lost == 10:
                await asyncio.sleep(0.01)
                before = descriptors()
        await asyncio.sleep(0.01)
        assert descriptors() <= before
        assert await answers(tmp_path)
