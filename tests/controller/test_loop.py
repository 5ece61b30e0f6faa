import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from gpusharing.controller import loop as module
from gpusharing.controller.loop import Changes, Loop
from gpusharing.controller.metrics import Metrics
from gpusharing.core.intents import Intent


class Applier:
    retry_in: float | None = None

    def __init__(self) -> None:
        self.rounds = 0
        self.work: Callable[[], Awaitable[object]] | None = None

    async def apply(self, _: Sequence[Intent]) -> None:
        self.rounds += 1
        if self.work is not None:
            await self.work()


class Decider:
    """Has nothing to write, and wants to look again when it is told."""

    again: float | None = None

    def __init__(self) -> None:
        self.moments: list[str] = []
        self.broken = False

    def steps(self, *, now: str) -> Iterator[None]:
        self.moments.append(now)
        if self.broken:
            raise RuntimeError("a world that nobody thought of")
        yield

    def fold_statuses(self, *, now: str) -> None:
        assert now == self.moments[-1]

    @property
    def pending(self) -> Sequence[Intent]:
        return ()

    def take_events(self) -> Sequence[Intent]:
        return ()

    def next_in(self, *, now: str) -> float | None:
        assert now == self.moments[-1]
        return self.again


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 (what is waited for knows no events)
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(loop: Loop, decider: Decider | None = None) -> AsyncIterator[None]:
    task = asyncio.create_task(loop.run(decider or Decider()))
    yield
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture
def applier() -> Applier:
    return Applier()


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def loop(applier: Applier, changes: Changes) -> Loop:
    return Loop(applier, Metrics(), changes)


async def test_decides_once_at_start_and_then_only_when_something_has_changed(
    loop: Loop, applier: Applier, changes: Changes
) -> None:
    async with running(loop):
        await until(lambda: applier.rounds == 1)
        await asyncio.sleep(0.2)
        assert applier.rounds == 1
        changes.happened()
        await until(lambda: applier.rounds == 2)


async def test_many_changes_are_one_round(loop: Loop, applier: Applier, changes: Changes) -> None:
    async with running(loop):
        await until(lambda: applier.rounds == 1)
        for _ in range(1000):
            changes.happened()
        await until(lambda: applier.rounds == 2)
        await asyncio.sleep(0.2)
        assert applier.rounds == 2


async def test_a_change_during_a_round_is_not_lost(loop: Loop, applier: Applier, changes: Changes) -> None:
    async def change_once() -> None:
        applier.work = None
        changes.happened()

    applier.work = change_once
    async with running(loop):
        await until(lambda: applier.rounds == 2)


async def test_what_failed_is_tried_again_without_a_change(loop: Loop, applier: Applier) -> None:
    applier.retry_in = 0.01
    async with running(loop):
        await until(lambda: applier.rounds == 3)
        assert not loop.is_ready
        applier.retry_in = None
        await until(lambda: loop.is_ready)


async def test_a_decision_that_raises_is_made_again_on_the_next_change(applier: Applier, changes: Changes) -> None:
    decider, metrics = Decider(), Metrics()
    decider.broken = True
    loop = Loop(applier, metrics, changes)
    async with running(loop, decider):
        await until(lambda: b'gpusharing_decisions_total{result="failed"} 1.0' in metrics.exposition())
        assert not loop.is_ready
        assert not loop.is_stuck
        assert applier.rounds == 0
        decider.broken = False
        changes.happened()
        await until(lambda: loop.is_ready)
        assert applier.rounds == 1


async def test_a_round_without_end_is_seen(
    loop: Loop, applier: Applier, changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STUCK_AFTER", 0.05)
    async with running(loop):
        await until(lambda: applier.rounds == 1)
        await asyncio.sleep(0.1)
        assert not loop.is_stuck  # waiting for changes is no work
        applier.work = asyncio.Event().wait
        changes.happened()
        await until(lambda: loop.is_stuck)


async def test_the_age_of_a_change_is_that_of_the_oldest(changes: Changes) -> None:
    assert changes.age == 0
    changes.happened()
    await asyncio.sleep(0.02)
    changes.happened()
    assert changes.age >= 0.02
    changes.seen()
    assert changes.age == 0


async def test_times_are_as_kubernetes_writes_them(loop: Loop) -> None:
    decider = Decider()
    async with running(loop, decider):
        await until(lambda: bool(decider.moments))
    assert len(decider.moments[0]) == len("2026-11-18T12:00:00Z")
    assert decider.moments[0].endswith("Z")


async def test_looks_again_when_time_alone_may_change_something(loop: Loop, applier: Applier) -> None:
    decider = Decider()
    decider.again = 0.01
    async with running(loop, decider):
        await until(lambda: applier.rounds == 3)
