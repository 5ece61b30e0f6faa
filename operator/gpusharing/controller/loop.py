"""One loop for all changes: decide on what has changed, hand over what is pending; then wait for the next change."""

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Protocol

import structlog

from gpusharing.controller.metrics import Metrics
from gpusharing.core.decision.failures import Failure
from gpusharing.core.intents import Intent, RecordEvent
from gpusharing.kube.clock import now
from gpusharing.kube.retry import Backoff

log = structlog.get_logger(__name__)

# Changes come in crowds: the first one waits this long for the others.
_SETTLE: Final = 0.05
# Other work waits no longer than this and one step: probes, the lease, watches and writes.
_SLICE: Final = 0.01
_BETWEEN_FOLDS: Final = 0.5
# Of thousands of claims that wait, not all Events are recorded at once: those that hold on are handed over again.
_BETWEEN_REPORTS: Final = 60.0
_BACKOFF: Final = Backoff(0.5, 30.0)
_STUCK_AFTER: Final = 180.0


class Decides(Protocol):
    """As `gpusharing.core.decision.incremental.Decider` does, which says more about each."""

    def steps(self, *, now: str) -> Iterator[None]: ...

    def fold_statuses(self, *, now: str) -> Iterator[None]: ...

    @property
    def pending(self) -> Sequence[Intent]: ...

    def take_events(self) -> Sequence[RecordEvent]: ...

    @property
    def waiting_events(self) -> Sequence[RecordEvent]: ...

    def take_failures(self) -> Sequence[Failure]: ...

    @property
    def failing(self) -> Collection[object]: ...

    def next_in(self, *, now: str) -> float | None: ...


class Writes(Protocol):
    def want(self, intents: Sequence[Intent], /) -> None: ...


class Records(Protocol):
    def record(self, event: RecordEvent, /) -> None: ...


class Loop:
    def __init__(self, writer: Writes, recorder: Records, metrics: Metrics, backlog: "Backlog") -> None:
        self._writer = writer
        self._recorder = recorder
        self._metrics = metrics
        self._backlog = backlog
        self._is_deciding = False
        self._progressed_at: float | None = None
        """None before it runs."""
        self._folded_at = float("-inf")
        self._reported_at = float("-inf")
        self._has_to_repeat = False
        self._has_succeeded = False

    @property
    def is_ready(self) -> bool:
        """Whether a decision was made, and the last one did not fail."""
        return self._has_succeeded

    @property
    def is_stuck(self) -> bool:
        """Whether it has work and gets nowhere. Writes take as long as they take."""
        if self._progressed_at is None:
            return False
        has_work = self._is_deciding or self._backlog.age > _STUCK_AFTER
        return has_work and time.monotonic() - self._progressed_at > _STUCK_AFTER

    async def run(self, decider: Decides) -> None:
        delays = iter(_BACKOFF)
        while True:
            try:
                again = await self._round(decider)
            except Exception:
                log.exception("decision failed")
                self._metrics.could_not_decide()
                self._has_succeeded = False
                # What was decided before stays wanted.
                await asyncio.sleep(next(delays))
            else:
                delays, self._has_succeeded = iter(_BACKOFF), True
                await self._backlog.wait(again)

    async def _round(self, decider: Decides) -> float | None:
        """In how many seconds there is to be another one."""
        self._backlog.take()
        moment = now()
        self._is_deciding = True
        self._progressed_at = time.monotonic()
        try:
            seconds = await self._work_off(decider.steps(now=moment))
            fold_in = max(0.0, self._folded_at + _BETWEEN_FOLDS - time.monotonic())
            if not fold_in:
                seconds += await self._work_off(decider.fold_statuses(now=moment))
                self._folded_at = time.monotonic()
        finally:
            self._is_deciding = False
            self._progressed_at = time.monotonic()
        self._metrics.decided(seconds)
        self._writer.want(decider.pending)
        await self._work_off(self._report(decider))
        self._backlog.finish()
        times = (fold_in or None, decider.next_in(now=moment), self._report_in)
        return min((wait for wait in times if wait is not None), default=None)

    async def _work_off(self, steps: Iterator[None]) -> float:
        """The seconds that it took, without those in which other work ran."""
        seconds, began = 0.0, time.perf_counter()
        for _ in steps:
            self._progressed_at = time.monotonic()
            if time.perf_counter() - began > _SLICE:
                seconds += time.perf_counter() - began
                await asyncio.sleep(0)
                began = time.perf_counter()
        return seconds + time.perf_counter() - began

    @property
    def _report_in(self) -> float | None:
        """In how many seconds to hand over again what holds on; None if nothing does."""
        if not self._has_to_repeat:
            return None
        return max(0.0, self._reported_at + _BETWEEN_REPORTS - time.monotonic())

    def _report(self, decider: Decides) -> Iterator[None]:
        events = decider.take_events()
        self._has_to_repeat = self._has_to_repeat or bool(events)
        if time.monotonic() - self._reported_at > _BETWEEN_REPORTS:
            self._reported_at, events = time.monotonic(), decider.waiting_events
            self._has_to_repeat = bool(events)
        for event in events:
            self._recorder.record(event)
            yield
        for failure in decider.take_failures():
            log.error("cannot decide on object", kind=failure.kind, object=failure.name, exc_info=failure.error)
        self._metrics.undecidable(len(decider.failing))


class Backlog:
    """Whether there are changes that are not decided on yet, and for how long."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._since: float | None = None
        """When the oldest came that no round has taken."""
        self._taken_since: float | None = None
        """When the oldest came that a round has taken and not decided on."""

    @property
    def age(self) -> float:
        """Of the oldest change, in seconds; 0 if all are decided on."""
        moments = [since for since in (self._since, self._taken_since) if since is not None]
        return time.monotonic() - min(moments) if moments else 0.0

    def add(self) -> None:
        """Something has changed."""
        if self._since is None:
            self._since = time.monotonic()
            self._happened.set()

    def take(self) -> None:
        """A round begins to decide on all that there is."""
        if self._taken_since is None:
            self._taken_since = self._since
        self._since = None
        self._happened.clear()

    def finish(self) -> None:
        """The round has decided on what it took."""
        self._taken_since = None

    async def wait(self, at_most: float | None) -> None:
        """For a change."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._happened.wait()
        await asyncio.sleep(_SETTLE)
