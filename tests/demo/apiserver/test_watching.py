"""Lists as of a version, and what watches hear."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.demo.apiserver import reading, store
from gpusharing.demo.apiserver.errors import StatusError
from gpusharing.demo.apiserver.kinds import Kinds
from gpusharing.demo.apiserver.store import Store

MAPS = next(kind for kind in Kinds() if kind.plural == "configmaps")


def put(kept: Store, name: str, namespace: str = "n", **labels: str) -> int:
    value = {"metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels}}
    return int(kept.put(MAPS.stored_as, value)["metadata"]["resourceVersion"])


def remove(kept: Store, name: str, namespace: str = "n") -> None:
    value = kept.get(MAPS.stored_as, name, namespace)
    assert value is not None
    kept.remove(MAPS.stored_as, value)


def names(kept: Store, **query: str) -> list[str]:
    page = reading.listed(kept, reading.Selection.of(MAPS, "", query), query)
    return [item["metadata"]["name"] for item in page.items]


async def heard(kept: Store, count: int, **query: str) -> list[tuple[str, str]]:
    selection = reading.Selection.of(MAPS, "", query)
    events = []
    async for event in reading.watched(kept, selection, query):
        events.append((event.type, event.value["metadata"].get("name", "")))
        if len(events) == count:
            break
    return events


def test_a_list_is_what_there_was_at_a_version() -> None:
    kept = Store()
    put(kept, "a")
    then = put(kept, "b")
    put(kept, "a", app="x")
    remove(kept, "b")
    put(kept, "c")
    assert names(kept, resourceVersion=str(then), resourceVersionMatch="Exact") == ["a", "b"]
    assert names(kept) == ["a", "c"]
    assert "labels" in kept.all_at(MAPS.stored_as, then)[0]["metadata"]
    assert kept.all_at(MAPS.stored_as, then)[0]["metadata"]["labels"] == {}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
def test_any_version_is_remembered_as_it_was(steps: list[tuple[str, bool]]) -> None:
    kept = Store()
    seen: dict[int, list[Any]] = {}
    for name, stays in steps:
        if stays:
            put(kept, name, step=str(len(seen)))
        elif kept.get(MAPS.stored_as, name, "n"):
            remove(kept, name)
        seen[kept.version] = kept.all(MAPS.stored_as)
    for version, values in seen.items():
        assert kept.all_at(MAPS.stored_as, version) == values


def test_pages_are_of_one_version_and_in_the_order_of_etcd() -> None:
    kept = Store()
    for namespace in ("a", "a-b"):
        put(kept, f"x-{namespace}", namespace)
        put(kept, f"y-{namespace}", namespace)
    selection = reading.Selection.of(MAPS, "", {})
    found, query = [], {"limit": "1"}
    while True:
        page = reading.listed(kept, selection, query)
        found += [item["metadata"]["name"] for item in page.items]
        put(kept, f"later-{len(found)}", "z")
        if "continue" not in page.metadata:
            break
        query = {"limit": "1", "continue": page.metadata["continue"]}
    assert found == ["x-a-b", "y-a-b", "x-a", "y-a"]


def test_what_is_forgotten_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_KEPT_CHANGES", 5)
    kept = Store()
    first = put(kept, "a")
    for _ in range(20):
        last = put(kept, "a")
    with pytest.raises(StatusError, match="too old resource version") as refused:
        kept.changes_after(MAPS.stored_as, first)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert [change.version for change in kept.changes_after(MAPS.stored_as, last - 1)] == [last]
    error = reading.check_watch(kept, MAPS, {"resourceVersion": str(first)})
    assert error is not None
    assert error.code == 410


async def test_a_watch_hears_what_came_after_its_version() -> None:
    kept = Store()
    start = put(kept, "old")
    put(kept, "a", of="set")
    put(kept, "a")
    put(kept, "a", of="set")
    remove(kept, "a")
    version = str(start)
    everything = [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert await heard(kept, 4, resourceVersion=version) == everything
    selected = [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")]
    assert await heard(kept, 4, resourceVersion=version, labelSelector="of=set") == selected


async def test_nothing_is_lost_between_what_there_is_and_what_comes() -> None:
    kept = Store()
    put(kept, "a")
    put(kept, "b")
    query = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    events = reading.watched(kept, reading.Selection.of(MAPS, "", {}), query)
    told: list[Any] = [await anext(events)]
    # While the watcher is at the first of the initial ones.
    put(kept, "c")
    remove(kept, "b")
    told += [await anext(events) for _ in range(4)]
    assert [(event.type, event.value["metadata"].get("name")) for event in told] == [
        ("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", None), ("ADDED", "c"), ("DELETED", "b"),
    ]  # fmt: skip
    assert told[2].value["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await events.aclose()


async def test_a_watch_ends_in_time_and_bookmarks_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BOOKMARK_EVERY", 0.1)
    kept = Store()
    version = str(put(kept, "a"))
    assert await heard(kept, 99, resourceVersion=version, timeoutSeconds="1") == []
    task = asyncio.create_task(heard(kept, 2, resourceVersion=version, allowWatchBookmarks="true"))
    assert await task == [("BOOKMARK", ""), ("BOOKMARK", "")]
