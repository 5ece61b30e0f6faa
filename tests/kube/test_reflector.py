"""The local copy of what is in the API: right in the end, whatever the watch goes through."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from gpusharing.api.dra import ResourceSlice
from gpusharing.kube import client_credentials, reflector, transport
from gpusharing.kube.kinds import RESOURCE_SLICES
from gpusharing.kube.reflector import Reflector
from gpusharing.kube.retry import Backoff
from gpusharing.kube.transport import Api, open_session
from gpusharing.kube.watches import Watches
from harness.controlplane import ControlPlane
from harness.eventually import PATIENCE, eventually
from kube.conftest import Answer, Script, breaks, refuses, says


def slice_(name: str, version: int, *, uid: str = "", generation: int = 0) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)},
        "spec": {"pool": {"generation": generation or version}},
    }


def lists(version: int, *items: dict[str, Any]) -> Answer:
    return says({"metadata": {"resourceVersion": str(version)}, "items": list(items)})


def event(type_: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": item}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def expired() -> bytes:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


def watches(*lines: bytes, end: str = "stays") -> Answer:
    """A watch that says this, and then stays open, ends, or breaks."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        match end:
            case "stays":
                await asyncio.sleep(60)
            case "breaks":
                await asyncio.sleep(0.05)
                assert request.transport is not None
                request.transport.abort()
        return response

    return answer


@dataclass
class Copy:
    """A reflector that runs, with how often it said that something has changed."""

    reflector: Reflector[ResourceSlice]
    changes: list[int] = field(default_factory=list)

    def contents(self) -> dict[str, int]:
        return {item.metadata.name: item.spec["pool"]["generation"] for item in self.reflector.objects}

    async def holds(self, **expected: int) -> None:
        async def check() -> None:
            assert self.contents() == expected

        await eventually(check)


@asynccontextmanager
async def copying(api: Api, **options: Any) -> AsyncIterator[Copy]:
    changes: list[int] = []
    copy = Copy(
        Reflector(api, RESOURCE_SLICES, watches=Watches(), on_change=lambda: changes.append(1), **options), changes
    )
    task = asyncio.create_task(copy.reflector.run())
    try:
        yield copy
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        await asyncio.wait({task})


async def test_list_then_watch(api: Api, script: Script) -> None:
    script.then(
        lists(5, slice_("a", 3), slice_("b", 4)),
        watches(event("MODIFIED", slice_("a", 6)), event("ADDED", slice_("c", 7)), event("DELETED", slice_("b", 8))),
    )
    async with copying(api, field_selector="spec.nodeName=n") as copy:
        await copy.holds(a=6, c=7)
        assert copy.reflector.synced.is_set()
        assert copy.reflector.get("a") is not None
        assert copy.reflector.get("b") is None
        # The list, and each event.
        assert len(copy.changes) == 4
    listing, watching = script.received
    assert listing.query == {"limit": "200", "fieldSelector": "spec.nodeName=n"}
    assert (watching.query["watch"], watching.query["resourceVersion"]) == ("1", "5")
    assert watching.query["fieldSelector"] == "spec.nodeName=n"


async def test_watch_that_ends_goes_on_where_it_was(api: Api, script: Script) -> None:
    """Also when the last thing it said was a bookmark, which is no change."""
    script.then(
        lists(5, slice_("a", 3)),
        watches(event("MODIFIED", slice_("a", 6)), bookmark(9), end="ends"),
        watches(event("MODIFIED", slice_("a", 10)), end="breaks"),
        watches(event("ADDED", slice_("b", 12))),
    )
    async with copying(api) as copy:
        await copy.holds(a=10, b=12)
        assert len(copy.changes) == 4
    assert [received.query.get("resourceVersion") for received in script.received] == [None, "5", "9", "10"]


@pytest.mark.parametrize(
    "trouble",
    [
        watches(event("MODIFIED", slice_("a", 6)), expired()),
        refuses(410, "Expired", "too old resource version"),
        refuses(500, "InternalError"),
        refuses(403, "Forbidden", "for a moment"),
        watches(event("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError"})),
    ],
    ids=["410 in the middle", "410 at the start", "500", "403", "error event"],
)
async def test_in_doubt_it_is_listed_anew(api: Api, script: Script, trouble: Answer) -> None:
    """Deletions that nobody told of are found."""
    script.then(lists(5, slice_("a", 3), slice_("gone", 4)), trouble, lists(20, slice_("a", 15)), watches())
    async with copying(api) as copy:
        await copy.holds(a=15)


async def test_object_that_cannot_be_read_concerns_nobody_else(api: Api, script: Script) -> None:
    """What was known of it stays, whether it was watched or listed."""
    bad = slice_("a", 6) | {"spec": 3}
    script.then(
        lists(5, slice_("a", 3), slice_("b", 4)),
        watches(event("MODIFIED", bad), event("MODIFIED", slice_("b", 7)), expired()),
        lists(20, bad, slice_("b", 15), slice_("new", 16) | {"spec": []}),
        watches(),
    )
    async with copying(api) as copy:
        await copy.holds(a=3, b=15)
    assert [received.query.get("resourceVersion") for received in script.received[:3]] == [None, "5", None]
    assert api.unreadables.counts == {"ResourceSlice": 3}


async def test_whatever_goes_wrong_with_an_event_is_answered_by_a_new_list(api: Api, script: Script) -> None:
    script.then(
        lists(5, slice_("a", 3)), watches(event("MODIFIED", slice_("a", 6))), lists(9, slice_("a", 8)), watches()
    )
    trouble = iter([None, KeyError("a fault of ours")])

    def on_change() -> None:
        if error := next(trouble, None):
            raise error

    with capture_logs() as logs:
        reflecting = Reflector(api, RESOURCE_SLICES, watches=Watches(), on_change=on_change)
        task = asyncio.create_task(reflecting.run())

        async def check() -> None:
            assert [item.spec["pool"]["generation"] for item in reflecting.objects] == [8]

        await eventually(check, within=10)
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()
    assert [bool(entry["exc_info"]) for entry in logs if entry["event"] == "watch failed"] == [True]


@pytest.mark.parametrize(
    "line",
    [b'{"type":"MODI', b"<html>\n", b'{"type":"MODIFIED","object":null}\n', b"[]\n", b"{}\n"],
)
async def test_line_that_is_no_event(api: Api, script: Script, line: bytes) -> None:
    script.then(lists(5, slice_("a", 3)), watches(line, end="ends"), lists(9, slice_("b", 8)), watches())
    # Whether it is listed anew or watched from where it was: it is not the end.
    script.answers[2] = _either(lists(9, slice_("b", 8)), watches(event("ADDED", slice_("b", 8)), end="ends"))
    script.answers[3] = _either(lists(9, slice_("b", 8)), watches())
    async with copying(api) as copy:

        async def goes_on() -> None:
            assert "b" in copy.contents()

        await eventually(goes_on)


def _either(listing: Answer, watching: Answer) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return await (watching if "watch" in request.query else listing)(request)

    return answer


async def test_list_is_repeated_until_it_succeeds(api: Api, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_FIRST_DELAY", 0.01)
    page = says({"metadata": {"resourceVersion": "5", "continue": "t"}, "items": [slice_("half", 1)]})
    script.then(
        *[refuses(503)] * 4,
        breaks(),
        refuses(403, "Forbidden"),
        page,
        refuses(410, "Expired", "continue parameter is too old"),
        lists(7, slice_("a", 6)),
        watches(),
    )
    async with copying(api) as copy:
        await copy.holds(a=6)
        assert len(copy.changes) == 1


async def expect_pauses(api: Api, script: Script) -> None:
    """At least half a backoff lies between two watches, and each is twice as long as the one before."""

    async def watches_four_times() -> None:
        assert len([received for received in script.received if "watch" in received.query]) >= 4

    async with copying(api):
        await eventually(watches_four_times)
    times = [received.at for received in script.received if "watch" in received.query]
    pauses = [later - earlier for earlier, later in pairwise(times[:4])]
    assert all(pause >= reflector._BACKOFF.first / 2 * 2**number for number, pause in enumerate(pauses)), pauses


async def test_broken_watches_are_not_repeated_without_a_pause(api: Api, script: Script) -> None:
    script.then(lists(5), breaks())
    await expect_pauses(api, script)


async def test_watches_that_end_at_once_are_not_repeated_without_a_pause(api: Api, script: Script) -> None:
    """As API servers do while they shut down."""
    script.then(lists(5), watches(end="ends"))
    await expect_pauses(api, script)


async def test_versions_that_are_always_too_old_are_not_listed_without_a_pause(api: Api, script: Script) -> None:
    script.then(_either(lists(5), watches(expired(), end="ends")))
    await expect_pauses(api, script)


async def test_silent_watch_is_a_dead_connection(api: Api, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "WATCH_SILENCE", 0.2)
    script.then(lists(5), watches(), watches(event("ADDED", slice_("a", 6))))
    async with copying(api) as copy:
        await copy.holds(a=6)


async def test_pause_is_short_again_after_something_was_heard(
    api: Api, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "_BACKOFF", Backoff(0.05))
    heard = [watches(event("ADDED", slice_("a", version)), end="breaks") for version in range(6, 16)]
    script.then(lists(5), *heard, watches())
    async with copying(api) as copy:
        async with asyncio.timeout(PATIENCE / 2):
            await copy.holds(a=15)


async def test_watch_is_behind_what_we_wrote(api: Api, script: Script) -> None:
    """Old events neither bring back what we replaced nor take away what we made anew."""
    go = asyncio.Event()

    async def late(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await go.wait()
        for line in (
            event("MODIFIED", slice_("a", 6)),
            event("MODIFIED", slice_("b", 7)),
            event("DELETED", slice_("b", 8)),
            bookmark(8),
            event("ADDED", slice_("last", 9)),
        ):
            await response.write(line)
        await asyncio.sleep(60)
        return response

    script.then(lists(5, slice_("a", 3), slice_("b", 4)), late)
    async with copying(api) as copy:
        await copy.holds(a=3, b=4)
        copy.reflector.put(RESOURCE_SLICES.from_json(slice_("a", 10)))
        old = copy.reflector.get("b")
        assert old is not None
        copy.reflector.drop(old)
        copy.reflector.put(RESOURCE_SLICES.from_json(slice_("b", 11, uid="another")))
        go.set()
        await copy.holds(a=10, b=11, last=9)


async def test_list_is_behind_what_we_wrote(api: Api, script: Script) -> None:
    """A write is answered while a list is under way: the list does not know of it, and the watch will tell."""
    go = asyncio.Event()

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        await go.wait()
        return await lists(20, slice_("a", 15), slice_("old", 16))(request)

    script.then(
        lists(5, slice_("a", 3), slice_("gone", 4)),
        watches(expired(), end="ends"),
        slow,
        watches(event("MODIFIED", slice_("old", 22))),
    )
    async with copying(api) as copy:

        async def listing() -> None:
            assert len(script.received) == 3

        await eventually(listing)
        copy.reflector.put(RESOURCE_SLICES.from_json(slice_("new", 21)))
        copy.reflector.put(RESOURCE_SLICES.from_json(slice_("a", 23)))
        go.set()
        await copy.holds(a=23, old=22, new=21)


@pytest.mark.cluster
async def test_real_api_server(control_plane: ControlPlane) -> None:
    credentials = await client_credentials.load(control_plane.kubeconfig)
    async with open_session(credentials) as session:
        api = Api(session, credentials.server, user_agent="tests/1")

        def body(name: str, generation: int) -> dict[str, Any]:
            pool = {"name": "p", "generation": generation, "resourceSliceCount": 2}
            return {"metadata": {"name": name}, "spec": {"driver": "x.test", "nodeName": "reflected", "pool": pool}}

        async with copying(api, field_selector="spec.nodeName=reflected,spec.driver=x.test") as copy:
            await copy.reflector.synced.wait()
            one = await api.create(RESOURCE_SLICES, body("reflected-1", 1))
            await api.create(RESOURCE_SLICES, body("reflected-2", 1))
            other = body("reflected-elsewhere", 1)
            other["spec"]["nodeName"] = "elsewhere"
            elsewhere = await api.create(RESOURCE_SLICES, other)
            await copy.holds(**{"reflected-1": 1, "reflected-2": 1})
            changed = {"metadata": one.metadata.for_update(), "spec": body("reflected-1", 2)["spec"]}
            two = await api.replace(RESOURCE_SLICES, "reflected-1", changed)
            await copy.holds(**{"reflected-1": 2, "reflected-2": 1})
            # What is gone already is deleted.
            await api.delete(RESOURCE_SLICES, "reflected-1", uid=two.metadata.uid)
            await api.delete(RESOURCE_SLICES, "reflected-1", uid=two.metadata.uid)
            await copy.holds(**{"reflected-2": 1})
            for name in ("reflected-2", "reflected-elsewhere"):
                uid = (await api.get(RESOURCE_SLICES, name)).metadata.uid
                await api.delete(RESOURCE_SLICES, name, uid=uid)
            await copy.holds()
            assert elsewhere.metadata.name not in copy.contents()
