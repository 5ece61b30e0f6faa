"""What the operator watches by itself: from its list on, whatever becomes of the watch."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import kopf
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from building import DRIVER, hostile
from gpusharing.controller import handlers as handlers  # noqa: PLC0414 (Kopf knows them once they are imported)
from gpusharing.controller.kopf_session import KopfSession
from gpusharing.controller.running import Operator
from gpusharing.controller.watching.following import HANDLED, WATCHED, follow
from gpusharing.controller.watching.store import Store
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import Api
from gpusharing.kube.watches import Watches
from harness.eventually import eventually
from kube.conftest import Answer, Script, refuses, says
from kube.test_reflector import bookmark, event, expired, lists, watches


def claim(name: str, version: int, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "a", "uid": f"uid-{name}", "resourceVersion": str(version), "labels": labels}
    return {"metadata": metadata}


class Followed:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.store = Store(WATCHED, on_change=lambda *_, **__: None)

    async def knows(self, **expected: int) -> None:
        async def check() -> None:
            known = {
                item.metadata.name: int(item.metadata.resource_version) for item in self.store.all(RESOURCE_CLAIMS)
            }
            assert known == expected

        await eventually(check)


@asynccontextmanager
async def followed(*answers: Answer) -> AsyncIterator[Followed]:
    """From version 5 on, with claims `a` and `b` known, by Kopf and its handlers as they run in the operator."""
    script = Script()
    script.then(*answers)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    async with TestServer(app) as server, ClientSession() as session, asyncio.TaskGroup() as tasks:
        result = Followed(script)
        for known in (claim("a", 3), claim("b", 4)):
            result.store.apply(RESOURCE_CLAIMS, known)
        api = Api(session, str(server.make_url("/")), user_agent="test")
        script.version_now = api.history.highest
        kopfs = KopfSession(HANDLED)
        following = tasks.create_task(follow(api, result.store, kopfs, RESOURCE_CLAIMS, "5", watches=Watches()))

        async with kopf_runs(Operator(result.store, kopfs, is_ready=lambda: True, stop=nothing)):
            yield result
            assert not following.done(), following.exception()
            following.cancel()


async def nothing() -> None:
    pass


@asynccontextmanager
async def kopf_runs(operator: Operator) -> AsyncIterator[None]:
    task = asyncio.create_task(kopf.operator(memo=kopf.Memo(operator=operator), clusterwide=True))
    yield
    assert not task.done(), task.exception()
    task.cancel()
    await asyncio.wait({task})


async def test_it_goes_on_from_the_list_that_was_taken_in() -> None:
    heard = [
        event("MODIFIED", claim("a", 6)),
        event("ADDED", claim("c", 7)),
        event("DELETED", claim("b", 8)),
        bookmark(9),
    ]
    async with followed(watches(*heard, end="breaks"), watches(event("MODIFIED", claim("c", 10)))) as it:
        await it.knows(a=6, c=10)
    assert [received.query.get("resourceVersion") for received in it.script.received] == ["5", "9"]


async def test_deletions_that_no_watch_tells_are_in_the_next_list() -> None:
    async with followed(watches(expired(), end="ends"), lists(20, claim("a", 15)), watches()) as it:
        await it.knows(a=15)


async def test_a_list_that_expires_before_its_last_page_begins_anew() -> None:
    page = says({"metadata": {"resourceVersion": "20", "continue": "1"}, "items": [claim("a", 15)]})
    anew = lists(30, claim("a", 15), claim("c", 25))
    async with followed(watches(expired(), end="ends"), page, refuses(410, "Expired"), anew, watches()) as it:
        await it.knows(a=15, c=25)


async def test_a_kind_that_is_not_served_any_more_is_waited_for() -> None:
    gone = refuses(404, "NotFound")
    async with followed(watches(end="breaks"), gone, gone, lists(30, claim("a", 15)), watches()) as it:
        await it.knows(a=15)


async def test_what_we_wrote_after_the_list_was_made_stays() -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def late(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await go.wait()
        return await lists(20, claim("a", 15))(request)

    async with followed(watches(expired(), end="ends"), late, watches()) as it:
        await asked.wait()
        it.store.apply_created(RESOURCE_CLAIMS, RESOURCE_CLAIMS.from_json(claim("new", 21)))
        go.set()
        await it.knows(a=15, new=21)


async def test_an_event_that_kopf_still_has_does_not_bring_back_what_a_list_does_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list comes while the event of before is on its way through Kopf."""
    heard, go = asyncio.Event(), asyncio.Event()
    hear = Operator.hear

    async def late(request: web.BaseRequest) -> web.StreamResponse:
        await heard.wait()
        return await lists(20, claim("a", 15))(request)

    def delayed(self: Operator, kind: Any, event: Any) -> None:
        async def wait() -> None:
            await go.wait()
            hear(self, kind, event)

        heard.set()
        waiting.append(asyncio.create_task(wait()))

    waiting: list[asyncio.Task[None]] = []
    monkeypatch.setattr(Operator, "hear", delayed)
    told = event("MODIFIED", claim("b", 6)), expired()
    async with followed(watches(*told, end="ends"), late, watches()) as it:
        await it.knows(a=15)
        go.set()
        await asyncio.wait(waiting)
        await it.knows(a=15)


async def test_an_object_that_cannot_be_read_does_not_end_the_watch() -> None:
    unreadable = claim("a", 6) | {"status": {"allocation": "none"}}
    with capture_logs() as logs:
        async with followed(watches(event("MODIFIED", unreadable), event("MODIFIED", claim("b", 7)))) as it:
            # What was known of it stays.
            await it.knows(a=3, b=7)
    assert [entry["event"] for entry in logs] == ["object unreadable"]
    assert len(it.script.received) == 1


@pytest.mark.parametrize("raw", hostile.RAW.values(), ids=hostile.RAW)
async def test_whatever_the_parameters_of_a_claim_are_it_is_taken_in(raw: bytes) -> None:
    configs = [{"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": "RAW"}}]
    hostile_claim = claim("a", 6) | {"status": {"allocation": {"devices": {"config": configs}}}}
    line = event("MODIFIED", hostile_claim).replace(b'"RAW"', raw)
    async with followed(watches(line, event("MODIFIED", claim("b", 7)))) as it:
        await it.knows(a=6, b=7)
