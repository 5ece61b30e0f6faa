import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from controller.api_server import Answer, ApiServer, Request, status
from gpusharing.controller import listing
from gpusharing.controller.patience import NotYetError, patiently
from gpusharing.controller.relists import Relists
from gpusharing.controller.store import Store
from gpusharing.kube.kinds import NODES, SHARING_POLICIES
from gpusharing.kube.transport import Api


@pytest.fixture
def store() -> Store:
    return Store((NODES, SHARING_POLICIES), on_change=lambda **_: None)


def node(number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"n{number}", "uid": f"uid-{number}", "resourceVersion": str(number)}}


def in_pages(*pages: list[Any], version: str = "100") -> Any:
    remaining: Iterator[list[Any]] = iter(pages)

    def answer(request: Request) -> Answer:
        if request.path in {"/api/v1", "/apis/gpusharing.dev/v1alpha1"}:
            return 200, {"resources": [{"name": "nodes"}, {"name": "sharingpolicies"}]}
        last = request.query.get("continue") == str(len(pages) - 1) or len(pages) == 1
        following = "" if last else str(int(request.query.get("continue", "0")) + 1)
        return 200, {"metadata": {"resourceVersion": version, "continue": following}, "items": next(remaining)}

    return answer


async def test_everything_is_listed_page_by_page(api: Api, store: Store, server: ApiServer) -> None:
    server.answer = in_pages([node(1), node(2)], [node(3)], [])
    await listing.prime(api, store, [NODES])
    assert sorted(item.metadata.name for item in store.all(NODES)) == ["n1", "n2", "n3"]


async def test_an_unreadable_object_does_not_hide_the_others(api: Api, store: Store, server: ApiServer) -> None:
    good = {"metadata": {"name": "good", "uid": "g", "resourceVersion": "1"}, "spec": {"offers": {"exclusive": {}}}}
    bad = {"metadata": {"name": "bad", "uid": "b", "resourceVersion": "2"}, "spec": {"offers": 3}}
    server.answer = in_pages([bad, good])
    with capture_logs() as logs:
        await listing.prime(api, store, [SHARING_POLICIES])
    assert [item.metadata.name for item in store.all(SHARING_POLICIES)] == ["good"]
    assert [entry["object"] for entry in logs if entry["log_level"] == "error"] == ["bad"]


async def test_a_kind_that_clients_are_not_told_of_yet_is_waited_for(api: Api, store: Store, server: ApiServer) -> None:
    server.answer = lambda request: (
        (200, {"resources": []}) if request.path == "/api/v1" else (200, {"metadata": {}, "items": None})
    )
    with pytest.raises(NotYetError, match="nodes"):
        await listing.prime(api, store, [NODES])


async def test_patience_says_what_it_waits_for(api: Api, store: Store, server: ApiServer) -> None:
    refusals = iter([status(403, "Forbidden"), status(404, "NotFound")])
    fine = in_pages([node(1)])
    server.answer = lambda request: next(refusals, None) or fine(request)
    with capture_logs() as logs:
        await patiently(lambda: listing.prime(api, store, [NODES]))
    warnings = [entry["error"] for entry in logs if entry["log_level"] == "warning"]
    assert ["403 Forbidden" in warnings[0], "404 NotFound" in warnings[1]] == [True, True]
    assert store.count(NODES) == 1


async def test_what_was_deleted_unseen_is_forgotten(api: Api, store: Store, server: ApiServer) -> None:
    server.answer = in_pages([node(1)], [node(3)])
    for number in (1, 2, 3, 101):
        store.seen(NODES, node(number))
    await listing.forget_deleted(api, store, NODES)
    assert sorted(item.metadata.name for item in store.all(NODES)) == ["n1", "n101", "n3"]


async def test_each_list_of_kopfs_is_audited_when_its_watch_begins(api: Api, store: Store, server: ApiServer) -> None:
    refusals = iter([status(403, "Forbidden")])
    fine = in_pages([node(1)])
    server.answer = lambda request: next(refusals, None) or fine(request)
    relists = Relists([NODES, SHARING_POLICIES], "https://example.com/clusters/a/")
    store.seen(NODES, node(2))
    audit = asyncio.create_task(listing.audit(api, store, relists))
    await _asks(relists, "/clusters/a/api/v1/nodes?limit=500", "/clusters/a/api/v1/nodes?limit=500&continue=1")
    await asyncio.sleep(0.1)
    assert store.count(NODES) == 1
    # Kopf has the whole list now. The audit is refused once, and does not give up.
    await _asks(relists, "/clusters/a/api/v1/nodes?watch=true&resourceVersion=7")
    async with asyncio.timeout(5):
        while store.count(NODES):  # noqa: ASYNC110 (the store knows no events)
            await asyncio.sleep(0.01)
    audit.cancel()
    await asyncio.wait([audit])


async def test_a_watch_that_goes_on_needs_no_audit() -> None:
    relists = Relists([NODES], "https://example.com")
    await _asks(relists, "/api/v1/nodes", "/api/v1/nodes?watch=true", "/api/v1/nodes?watch=true", "/api/v1/pods")
    assert await relists.next() is NODES
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(relists.next(), timeout=0.05)


async def _asks(relists: Relists, *paths: str) -> None:
    """Kopf's requests, as they pass through its session."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server, ClientSession(middlewares=(relists.middleware,)) as session:
        for path in paths:
            async with session.get(server.make_url(path)) as response:
                assert response.status == 200
