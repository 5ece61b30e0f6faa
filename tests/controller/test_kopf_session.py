"""Kopf with nothing but the session that it is given."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf
import pytest

from controller.test_following import claim
from gpusharing.controller import handlers as handlers  # noqa: PLC0414 (Kopf knows them once they are imported)
from gpusharing.controller.kopf_session import KopfSession
from gpusharing.controller.running import Operator
from gpusharing.controller.watching import deafness
from gpusharing.controller.watching.following import HANDLED, WATCHED
from gpusharing.controller.watching.store import Store
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.watches import DeafError, Watches


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
        offered = {name for name in dir(session) if not name.startswith("_")}
        assert offered - {"age", "hand_on", "login", "mark_heard"} <= set(dir(real))


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


async def lines(session: KopfSession) -> AsyncIterator[bytes]:
    watch: Any = await session.request("get", f"{RESOURCE_CLAIMS.path()}?watch=true")
    return watch.content.iter_chunked(1)  # type: ignore[no-any-return]


async def taken(of: AsyncIterator[bytes]) -> list[dict[str, Any]]:
    """All that Kopf is given now."""
    found: list[dict[str, Any]] = []
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(0.05):
                found.append(json.loads(await anext(of)))
    return found


async def test_of_an_object_the_latest_event_waits() -> None:
    session = KopfSession([RESOURCE_CLAIMS])
    for version in range(1, 1000):
        session.hand_on(RESOURCE_CLAIMS, "MODIFIED", claim("a", version))
    session.hand_on(RESOURCE_CLAIMS, "ADDED", claim("b", 1000))
    session.hand_on(RESOURCE_CLAIMS, "DELETED", claim("a", 1001))
    events = await taken(await lines(session))
    found = [(event["type"], event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert found == [("DELETED", "1001"), ("ADDED", "1000")]


async def test_a_successor_of_the_same_name_is_another_object() -> None:
    session = KopfSession([RESOURCE_CLAIMS])
    other = claim("a", 3)
    other["metadata"]["uid"] = "other"
    session.hand_on(RESOURCE_CLAIMS, "DELETED", claim("a", 2))
    session.hand_on(RESOURCE_CLAIMS, "ADDED", other)
    assert [event["type"] for event in await taken(await lines(session))] == ["DELETED", "ADDED"]


async def test_kopf_has_few_objects_at_a_time_and_one_event_of_each() -> None:
    session = KopfSession([RESOURCE_CLAIMS])
    for version in range(1000):
        session.hand_on(RESOURCE_CLAIMS, "ADDED", claim(f"c{version}", version))
    watch = await lines(session)
    first = await taken(watch)
    assert len(first) == 64
    watch = await lines(session)
    session.hand_on(RESOURCE_CLAIMS, "MODIFIED", claim("c0", 1001))
    session.mark_heard(RESOURCE_CLAIMS, first[1]["object"])
    # Kopf has the first event of c0 still.
    assert [event["object"]["metadata"]["name"] for event in await taken(watch)] == ["c64"]


async def test_the_age_is_that_of_the_oldest_event_that_no_handler_has_heard() -> None:
    session = KopfSession(HANDLED)
    assert session.age == 0
    session.hand_on(RESOURCE_CLAIMS, "ADDED", claim("a", 1))
    await asyncio.sleep(0.1)
    session.hand_on(RESOURCE_CLAIMS, "MODIFIED", claim("a", 2))
    session.hand_on(RESOURCE_CLAIMS, "ADDED", claim("b", 3))
    assert session.age >= 0.1
    for event in await taken(await lines(session)):
        # Kopf has them, and they are not heard.
        assert session.age > 0
        session.mark_heard(RESOURCE_CLAIMS, event["object"])
    assert session.age == 0


async def test_an_object_that_changes_all_the_time_does_not_grow_old() -> None:
    session = KopfSession([RESOURCE_CLAIMS])
    watch = await lines(session)
    for version in range(20):
        session.hand_on(RESOURCE_CLAIMS, "MODIFIED", claim("a", version))
        event = json.loads(await anext(watch))
        session.hand_on(RESOURCE_CLAIMS, "MODIFIED", claim("a", version + 100))
        await asyncio.sleep(0.01)
        session.mark_heard(RESOURCE_CLAIMS, event["object"])
        event = json.loads(await anext(watch))
        session.hand_on(RESOURCE_CLAIMS, "MODIFIED", claim("a", version + 200))
        session.mark_heard(RESOURCE_CLAIMS, event["object"])
    assert session.age < 0.1


async def test_handlers_that_hear_nothing_end_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deafness, "GIVES_UP_AFTER", 0.1)
    monkeypatch.setattr(deafness, "_LOOK_EVERY", 0.02)
    session = KopfSession(HANDLED)
    ending = asyncio.create_task(deafness.end_when_deaf(Watches(), session))
    await asyncio.sleep(0.2)
    assert not ending.done()
    session.hand_on(RESOURCE_CLAIMS, "ADDED", claim("a", 1))
    with pytest.raises(DeafError, match="Kopf"):
        await asyncio.wait_for(ending, 1)
