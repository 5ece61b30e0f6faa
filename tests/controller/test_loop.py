import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from gpusharing.api.meta import ObjectMeta
from gpusharing.controller import loop as module
from gpusharing.controller.loop import Backlog, Loop
from gpusharing.controller.metrics import Metrics
from gpusharing.core.decision.failures import Failure
from gpusharing.core.intents import Intent, RecordEvent, Target
from gpusharing.kube.retry import Backoff
from harness.eventually import PATIENCE

STUCK_AFTER = 180.0


class Writer:
    def __init__(self) -> None:
        self.wanted: list[Sequence[Intent]] = []

    @property
    def rounds(self) -> int:
        return len(self.wanted)

    def want(self, intents: Sequence[Intent]) -> None:
        self.wanted.append(intents)


class Recorder:
    def __init__(self) -> None:
        self.events: list[RecordEvent] = []

    def record(self, event: RecordEvent) -> None:
        self.events.append(event)


class Decider:
    """Has nothing to write, and wants to look again when it is told."""

    again: float | None = None
    pending: Sequence[Intent] = ()
    new_events: Sequence[RecordEvent] = ()
    waiting_events: Sequence[RecordEvent] = ()
    failing: Sequence[Failure] = ()

    def __init__(self) -> None:
        self.moments: list[str] = []
        self.began: list[float] = []
        self.folds: list[float] = []
        self.is_broken = False
        self.work: Iterator[None] = iter(())
        self.fold: Iterator[None] = iter(())

    def steps(self, *, now: str) -> Iterator[None]:
        self.moments.append(now)
        self.began.append(time.monotonic())
        yield from self.work
        if self.is_broken:
            raise RuntimeError("a world that nobody thought of")

    def fold_statuses(self, *, now: str) -> Iterator[None]:
        assert now == self.moments[-1]
        self.folds.append(time.monotonic())
        yield from self.fold

    def take_events(self) -> Sequence[RecordEvent]:
        events, self.new_events = self.new_events, ()
        return events

    def take_failures(self) -> Sequence[Failure]:
        return self.failing

    def next_in(self, *, now: str) -> float | None:
        assert now == self.moments[-1]
        return self.again


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (what is waited for knows no events)
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(loop: Loop, decider: Decider) -> AsyncIterator[None]:
    task = asyncio.create_task(loop.run(decider))
    yield
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def decider() -> Decider:
    return Decider()


@pytest.fixture
def backlog() -> Backlog:
    return Backlog()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def loop(writer: Writer, recorder: Recorder, backlog: Backlog) -> Loop:
    return Loop(writer, recorder, Metrics(), backlog)


async def test_decides_once_at_start_and_then_only_when_something_has_changed(
    loop: Loop, writer: Writer, decider: Decider, backlog: Backlog
) -> None:
    async with running(loop, decider):
        await until(lambda: writer.rounds == 1)
        await asyncio.sleep(0.7)
        assert writer.rounds == 1
        backlog.add()
        await until(lambda: writer.rounds == 2)


async def test_many_changes_are_one_decision(loop: Loop, decider: Decider, backlog: Backlog) -> None:
    async with running(loop, decider):
        await until(lambda: decider.moments)
        for _ in range(1000):
            backlog.add()
        await until(lambda: len(decider.moments) == 2)
        await asyncio.sleep(0.2)
        assert len(decider.moments) == 2


async def test_a_change_during_a_decision_is_not_lost(
    loop: Loop, writer: Writer, decider: Decider, backlog: Backlog
) -> None:
    def change_once() -> Iterator[None]:
        backlog.add()
        yield

    decider.work = change_once()
    async with running(loop, decider):
        await until(lambda: writer.rounds == 2)


@pytest.mark.parametrize("of", ["decision", "fold", "report"])
async def test_other_work_runs_between_the_steps(loop: Loop, recorder: Recorder, decider: Decider, of: str) -> None:
    """Counted in steps, not in seconds: a machine with other work takes longer for each."""
    done = 0

    def slow(_: object = None) -> None:
        nonlocal done
        done += 1
        time.sleep(0.005)

    match of:
        case "decision":
            decider.work = map(slow, range(100))
        case "fold":
            decider.fold = map(slow, range(100))
        case _:
            decider.waiting_events = [event(f"c{number}") for number in range(100)]
            recorder.record = slow  # type: ignore[method-assign, assignment]
    most, before = 0, 0
    async with running(loop, decider):
        while not loop.is_ready or done < 100:
            await asyncio.sleep(0)
            most, before = max(most, done - before), done
    assert 0 < most <= 3


async def test_a_decision_that_fails_is_made_again_with_a_backoff(
    writer: Writer, decider: Decider, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much changes meanwhile; and what was decided before stays wanted."""
    metrics = Metrics()
    loop = Loop(writer, Recorder(), metrics, backlog)
    monkeypatch.setattr(module, "_BACKOFF", Backoff(0.2, 30.0))
    async with running(loop, decider):
        await until(lambda: loop.is_ready)
        decider.is_broken, decider.again = True, 0.0
        wanted, tried = list(writer.wanted), len(decider.moments)
        while len(decider.began) < tried + 3:
            backlog.add()
            await asyncio.sleep(0.01)
        first, second, third = decider.began[tried : tried + 3]
        assert second - first >= 0.1
        assert third - second >= 0.2
        assert writer.wanted == wanted
        assert not loop.is_ready
        assert not loop.is_stuck
        assert b'gpusharing_decisions_total{result="failed"}' in metrics.exposition()
        decider.is_broken = False
        await until(lambda: loop.is_ready)
        assert writer.rounds > len(wanted)


async def test_statuses_are_folded_at_once_and_then_twice_a_second_and_never_lost(
    loop: Loop, decider: Decider, backlog: Backlog
) -> None:
    async with running(loop, decider):
        await until(lambda: decider.folds)
        began, ends = decider.folds[0], time.monotonic() + 1.2
        while time.monotonic() < ends:
            backlog.add()
            await asyncio.sleep(0.01)
        backlog.add()
        decided = len(decider.moments)
        await until(lambda: len(decider.moments) > decided)
        last = time.monotonic()
        await until(lambda: decider.folds[-1] > last - 0.1)
        await asyncio.sleep(0.7)
        assert all(after - before >= 0.5 for before, after in itertools.pairwise(decider.folds))
        assert len(decider.folds) <= 2 + (decider.folds[-1] - began) / 0.5
        rounds = len(decider.moments)
        await asyncio.sleep(0.7)
        assert len(decider.moments) == rounds


class Clock:
    """Its time passes when a test says so: a machine with other work takes longer for everything."""

    perf_counter = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


async def test_a_decision_that_makes_no_progress_is_seen(
    loop: Loop, writer: Writer, decider: Decider, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    assert not loop.is_stuck
    async with running(loop, decider):
        await until(lambda: writer.rounds == 1)
        clock.now += 2 * STUCK_AFTER
        assert not loop.is_stuck  # waiting for changes is no work
        seen: list[bool] = []

        def steps() -> Iterator[None]:
            # Together they take longer, but each is progress.
            for _ in range(5):
                clock.now += STUCK_AFTER / 4
                seen.append(loop.is_stuck)
                yield
            clock.now += STUCK_AFTER + 1
            seen.append(loop.is_stuck)

        decider.work = steps()
        backlog.add()
        await until(lambda: len(seen) == 6)
        assert seen == [False, False, False, False, False, True]
        await until(lambda: writer.rounds == 2)
        assert not loop.is_stuck


async def test_changes_of_which_nobody_takes_notice_are_seen(
    loop: Loop, writer: Writer, decider: Decider, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(loop, decider):
        await until(lambda: writer.rounds == 1)
        monkeypatch.setattr(module, "_STUCK_AFTER", 0.05)
        monkeypatch.setattr(module, "_SETTLE", 60)
        backlog.add()
        assert not loop.is_stuck
        await until(lambda: loop.is_stuck)


async def test_the_age_of_a_change_is_that_of_the_oldest_that_is_not_decided_on(backlog: Backlog) -> None:
    assert backlog.age == 0
    backlog.add()
    await asyncio.sleep(0.02)
    backlog.add()
    assert backlog.age >= 0.02
    # Also while a round decides on it, and if that fails, until the next one has.
    for _ in range(2):
        backlog.take()
        backlog.add()
        assert backlog.age >= 0.02
    backlog.take()
    backlog.add()
    backlog.finish()
    assert 0 < backlog.age < 0.02
    backlog.take()
    backlog.finish()
    assert backlog.age == 0


async def test_a_change_is_undecided_until_its_writes_are_handed_over(
    loop: Loop, writer: Writer, decider: Decider, backlog: Backlog
) -> None:
    ages: list[float] = []

    def work() -> Iterator[None]:
        ages.append(backlog.age)
        yield

    async with running(loop, decider):
        await until(lambda: writer.rounds == 1)
        decider.work = work()
        backlog.add()
        await until(lambda: writer.rounds == 2)
        assert ages[0] > 0
        await until(lambda: backlog.age == 0)


async def test_times_are_as_kubernetes_writes_them(loop: Loop, decider: Decider) -> None:
    async with running(loop, decider):
        await until(lambda: bool(decider.moments))
    assert len(decider.moments[0]) == len("2026-11-18T12:00:00Z")
    assert decider.moments[0].endswith("Z")


async def test_looks_again_when_time_alone_may_change_something(loop: Loop, writer: Writer, decider: Decider) -> None:
    decider.again = 0.01
    async with running(loop, decider):
        await until(lambda: writer.rounds == 3)


def event(name: str) -> RecordEvent:
    about = ObjectMeta(name=name, uid=name)
    return RecordEvent(
        target=Target.RESOURCE_CLAIM, about=about, warning=True, reason="R", action="A", note="", occurrence=""
    )


async def test_events_are_recorded_when_they_come_and_again_now_and_then_while_they_hold_on(
    loop: Loop, recorder: Recorder, decider: Decider, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = event("first"), event("second")
    decider.waiting_events = [first]
    async with running(loop, decider):
        await until(lambda: recorder.events == [first])
        decider.new_events, decider.waiting_events = [second], [first, second]
        backlog.add()
        await until(lambda: recorder.events == [first, second])
        monkeypatch.setattr(module, "_BETWEEN_REPORTS", 0.0)
        backlog.add()
        await until(lambda: recorder.events == [first, second, first, second])


async def test_events_that_hold_on_are_handed_over_again_although_nothing_changes(
    loop: Loop, recorder: Recorder, decider: Decider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have been suppressed."""
    monkeypatch.setattr(module, "_BETWEEN_REPORTS", 0.1)
    decider.waiting_events = [event("first")]
    async with running(loop, decider):
        await until(lambda: len(recorder.events) == 3)
        decider.waiting_events = ()
        await asyncio.sleep(0.3)
        handed_over, rounds = len(recorder.events), len(decider.moments)
        await asyncio.sleep(0.3)
        assert (len(recorder.events), len(decider.moments)) == (handed_over, rounds)


async def test_an_event_that_comes_after_a_report_is_handed_over_again_as_well(
    loop: Loop, recorder: Recorder, decider: Decider, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BETWEEN_REPORTS", 0.8)
    async with running(loop, decider):
        await until(lambda: loop.is_ready)
        decider.new_events = decider.waiting_events = [event("late")]
        backlog.add()
        await until(lambda: len(recorder.events) == 2)


async def test_an_object_that_cannot_be_decided_on_is_named(
    writer: Writer, recorder: Recorder, decider: Decider, backlog: Backlog
) -> None:
    metrics = Metrics()
    loop = Loop(writer, recorder, metrics, backlog)
    decider.failing = [Failure("NodeSharing", "n1", ValueError("65 GPUs"))]
    with capture_logs() as logs:
        async with running(loop, decider):
            await until(lambda: loop.is_ready)
    (line,) = [line for line in logs if line["event"] == "cannot decide on object"]
    assert (line["kind"], line["object"], str(line["exc_info"])) == ("NodeSharing", "n1", "65 GPUs")
    assert b"gpusharing_undecidable_objects 1.0" in metrics.exposition()
