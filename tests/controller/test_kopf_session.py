"""Kopf with nothing but the session that it is given."""

import asyncio
import itertools
import json
import os
import signal
import time
from typing import Any

import aiohttp
import kopf
import pytest

from controller.test_following import claim
from gpusharing.controller import handlers as handlers  # noqa: PLC0414 (Kopf knows them once they are imported)
from gpusharing.controller.kopf_session import KopfSession
from gpusharing.controller.running import Operator
from gpusharing.controller.watching.following import HANDLED, WATCHED
from gpusharing.controller.watching.store import Store
from gpusharing.kube.kinds import RESOURCE_CLAIMS


def test_it_ends_at_once_in_the_midst_of_events(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> float:
        session = KopfSession(HANDLED)
        store = Store(WATCHED, on_change=lambda *_, **__: None)

        async def storm() -> None:
            for number in itertools.count(1):
                session.hand_on(RESOURCE_CLAIMS, "ADDED", claim(f"c{number}", number))
                await asyncio.sleep(0 if number % 20 else 0.001)

        storming = asyncio.create_task(storm())

        async def stop() -> None:
            storming.cancel()

        operator = Operator(store, session, is_ready=lambda: True, stop=stop)
        running = asyncio.create_task(kopf.operator(memo=kopf.Memo(operator=operator), clusterwide=True))
        while not store.count(RESOURCE_CLAIMS):  # noqa: ASYNC110 (the store knows no events)
            await asyncio.sleep(0.1)
        began = time.monotonic()
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        return time.monotonic() - began

    assert asyncio.run(main()) < 3
    assert not [record for record in caplog.records if record.name == "asyncio"]


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
async def test_kopf_may_write_nothing(method: str) -> None:
    with pytest.raises(PermissionError, match="Kopf may write nothing"):
        await KopfSession(HANDLED).request(method, RESOURCE_CLAIMS.path("a", "b"))


async def test_it_has_what_kopf_takes_it_for() -> None:
    async with aiohttp.ClientSession() as real:
        session = KopfSession(HANDLED)
        assert {name for name in dir(session) if not name.startswith("_")} - {"hand_on", "login"} <= set(dir(real))


@pytest.mark.parametrize("depth", [60, 300, *range(940, 1000, 4), 5_000])
async def test_no_depth_of_parameters_ends_kopfs_watch(depth: int) -> None:
    """Ours may read just as deeply as its stack allows, and Kopf's stack is another one."""
    value: Any = {"a": 1}
    for _ in range(depth):
        value = [value]
    session = KopfSession([RESOURCE_CLAIMS])
    session.hand_on(RESOURCE_CLAIMS, "ADDED", claim("deep", 1) | {"spec": value})
    session.hand_on(RESOURCE_CLAIMS, "ADDED", claim("next", 2))
    watch: Any = await session.request("get", f"{RESOURCE_CLAIMS.path()}?watch=true")
    lines = watch.content.iter_chunked(1)
    first, second = [json.loads(await anext(lines)) for _ in range(2)]
    assert first["object"]["metadata"]["name"] == "deep"
    assert second["object"]["metadata"]["name"] == "next"
