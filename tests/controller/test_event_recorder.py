import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import structlog

from controller.api_server import Answer, ApiServer, Request, serving, status
from gpusharing.api.meta import ObjectMeta
from gpusharing.controller import event_recorder as module
from gpusharing.controller.event_recorder import EventRecorder
from gpusharing.controller.metrics import Metrics
from gpusharing.core.intents import RecordEvent, Target
from gpusharing.kube.events import Events
from gpusharing.kube.retry import Backoff
from gpusharing.kube.transport import Api


def event(name: str = "c1", reason: str = "ClaimDenied", occurrence: str = "1", note: str = "words") -> RecordEvent:
    return RecordEvent(
        target=Target.RESOURCE_CLAIM,
        about=ObjectMeta(name=name, namespace="team", uid=f"uid-{name}", resource_version="1"),
        warning=True,
        reason=reason,
        action="Deny",
        note=note,
        occurrence=occurrence,
    )


class Recording:
    def __init__(self, api: Api) -> None:
        self._metrics = Metrics()
        self.recorder = EventRecorder(Events(api, controller="test", instance="test"), self._metrics)

    def results(self) -> dict[str, int]:
        found = re.findall(r'^gpusharing_events_total\{result="(\w+)"\} (\d+)\.0$', self._text(), re.MULTILINE)
        return {result: int(count) for result, count in found if count != "0"}

    def _text(self) -> str:
        return self._metrics.exposition().decode()


@asynccontextmanager
async def recording(api: Api) -> AsyncIterator[Recording]:
    recording = Recording(api)
    task = asyncio.create_task(recording.recorder.run())
    yield recording
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BACKOFF", Backoff(0.01, 0.01))


async def until(condition: Callable[[], object], *, within: float = 5) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 (what is waited for knows no events)
            await asyncio.sleep(0.005)


def taken(request: Request) -> Answer:
    return 201, request.body


class Keeps:
    """As the API server: one Event of a name."""

    def __init__(self) -> None:
        self.events: dict[str, Any] = {}

    def __call__(self, request: Request) -> Answer:
        name = f"{request.path}/{request.body['metadata']['name']}"
        if name in self.events:
            return status(409, "AlreadyExists")
        self.events[name] = request.body
        return 201, request.body


async def test_each_occurrence_is_recorded_once(api: Api, server: ApiServer) -> None:
    server.answer = keeps = Keeps()
    other_uid = replace(event(), about=replace(event().about, uid="made-again"))
    wanted = [event(), event(note="2 of 3"), event(occurrence="2"), event(reason="NotATenant"), event("c2"), other_uid]
    async with recording(api) as its:
        for _ in range(3):
            for one in wanted:
                its.recorder.record(one)
            await until(lambda: its.results() == {"recorded": 5})
    assert len(server.requests) == len(keeps.events) == 5
    assert sorted(found["note"] for found in keeps.events.values()) == ["words"] * 5
    names = [found["metadata"]["name"] for found in keeps.events.values()]
    assert all(re.fullmatch(r"c[12]\.[0-9a-f]{20}", name) for name in names)


async def test_a_successor_finds_what_was_recorded(api: Api, server: ApiServer) -> None:
    server.answer = keeps = Keeps()
    for result in ("recorded", "already_recorded"):
        async with recording(api) as its:
            its.recorder.record(event())
            await until(lambda its=its, result=result: its.results() == {result: 1})  # type: ignore[misc]
            its.recorder.record(event())
            await asyncio.sleep(0.05)
            assert its.results() == {result: 1}
    assert len(keeps.events) == 1


@pytest.mark.parametrize("code", [400, 403, 404, 422])
async def test_a_refused_event_is_not_tried_again(api: Api, server: ApiServer, code: int) -> None:
    server.answer = lambda _: status(code, "Refused")
    async with recording(api) as its:
        for _ in range(3):
            its.recorder.record(event())
            await until(lambda: its.results() == {"refused": 1})
    assert len(server.requests) == 1


async def test_a_server_that_fails_is_asked_again_and_not_for_ever(api: Api, server: ApiServer) -> None:
    answers = iter([status(500, "InternalError")] * 2)
    server.answer = lambda request: next(answers, None) or taken(request)
    async with recording(api) as its:
        its.recorder.record(event())
        await until(lambda: its.results() == {"recorded": 1})
        server.answer = lambda _: status(500, "InternalError")
        its.recorder.record(event("c2"))
        await until(lambda: its.results() == {"recorded": 1, "failed": 1})
    assert len(server.requests) == 3 + 6


async def test_what_cannot_be_written_stops_no_other(api: Api, server: ApiServer) -> None:
    server.answer = lambda request: taken(request) if "c2." in str(request.body) else (201, "no object")
    async with recording(api) as its:
        its.recorder.record(event(note="half a character: \ud800"))
        its.recorder.record(event("c2", note="\ud800" * 2000))
        await until(lambda: its.results() == {"failed": 1, "recorded": 1})


async def test_a_burst_and_then_a_few_a_second(api: Api, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BURST", 20)
    server.answer = taken
    async with recording(api) as its:
        for number in range(40):
            its.recorder.record(event(f"c{number}"))
        began = time.monotonic()
        await until(lambda: len(server.requests) >= 20)
        assert time.monotonic() - began < 0.6
        await until(lambda: len(server.requests) == 40)
        assert time.monotonic() - began == pytest.approx(1, abs=0.35)


async def test_of_one_reason_so_many_a_minute_and_the_others_are_counted(
    api: Api, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And told in one line. A flood of one reason hides no other; what is asked for again has another chance."""
    monkeypatch.setattr(module, "_OF_A_REASON", 10)
    monkeypatch.setattr(module, "_PERIOD", 0.5)
    server.answer = taken
    flood = [event(f"c{number}") for number in range(30)]
    with structlog.testing.capture_logs() as logs:
        async with recording(api) as its:
            for _ in range(3):
                for one in flood:
                    its.recorder.record(one)
            its.recorder.record(event(reason="NotATenant"))
            await until(lambda: its.results() == {"recorded": 11, "suppressed": 20})
            await asyncio.sleep(0.6)
            for one in flood:
                its.recorder.record(one)
            await until(lambda: its.results() == {"recorded": 21, "suppressed": 30})
            await asyncio.sleep(0.6)
    told = [line for line in logs if line["event"] == "events suppressed"]
    assert [line["ClaimDenied"] for line in told] == [20, 10]


async def test_the_queue_is_bounded(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUEUED", 50)

    async def forever(_: Request) -> None:
        await asyncio.Event().wait()

    server.hold = forever
    async with serving(server) as api, recording(api) as its:
        await asyncio.sleep(0)
        for number in range(100):
            its.recorder.record(event(f"c{number}", reason=f"R{number}"))
        assert its.results() == {"suppressed": 50}


async def test_what_is_remembered_is_bounded(api: Api, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 3)
    server.answer = keeps = Keeps()
    async with recording(api) as its:
        for name in ("a", "b", "c", "a", "d", "a", "b"):
            its.recorder.record(event(name))
            await asyncio.sleep(0.02)
        await until(lambda: its.results() == {"recorded": 4, "already_recorded": 1})
    assert len(keeps.events) == 4
