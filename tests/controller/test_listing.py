from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.api_server import Answer, ApiServer, Request, status
from gpusharing.controller.watching import listing
from gpusharing.controller.watching.store import Store
from gpusharing.kube.kinds import NODES, SHARING_POLICIES
from gpusharing.kube.retry import patiently
from gpusharing.kube.transport import Api


@pytest.fixture
def store() -> Store:
    return Store((NODES, SHARING_POLICIES), on_change=lambda *_, **__: None)


def node(number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"n{number}", "uid": f"uid-{number}", "resourceVersion": str(number)}}


def in_pages(*pages: list[Any], version: str = "100") -> Any:
    remaining: Iterator[list[Any]] = iter(pages)

    def answer(request: Request) -> Answer:
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
    # Of the bad one, it is known that it is there.
    assert [item.metadata.name for item in store.all(SHARING_POLICIES)] == ["bad", "good"]
    assert [entry["object"] for entry in logs if entry["log_level"] == "error"] == ["bad"]


async def test_patience_says_what_it_waits_for(api: Api, store: Store, server: ApiServer) -> None:
    refusals = iter([status(403, "Forbidden"), status(404, "NotFound")])
    fine = in_pages([node(1)])
    server.answer = lambda request: next(refusals, None) or fine(request)
    with capture_logs() as logs:
        await patiently(lambda: listing.prime(api, store, [NODES]))
    warnings = [entry["error"] for entry in logs if entry["log_level"] == "warning"]
    assert ["403 Forbidden" in warnings[0], "404 NotFound" in warnings[1]] == [True, True]
    assert store.count(NODES) == 1
