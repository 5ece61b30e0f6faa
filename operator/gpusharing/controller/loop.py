"""One loop for all events: decide on what has changed, write what is missing; then wait for the next change."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import structlog

from gpusharing.controller.metrics import Metrics
from gpusharing.core.intents import Intent
from gpusharing.kube.clock import now

log = structlog.get_logger(__name__)

# Changes come in crowds: so long the first one waits for the others.
_SETTLE: Final = 0.05
# Each request has a timeout; a round that takes longer than all of them hangs.
_STUCK_AFTER: Final = 180.0


class Decides(Protocol):
    def steps(self, *, now: str) -> Iterator[None]:
        """Decides on what has changed, in steps of a few milliseconds; between two of them other work may run."""

    def fold_statuses(self, *, now: str) -> None:
        """Brings the statuses of policies up to date."""

    @property
    def pending(self) -> Sequence[Intent]:
        """All writes that are decided and not seen in the API yet."""

    def take_events(self) -> Sequence[Intent]:
        """Events that came since they were taken last."""

    def next_in(self, *, now: str) -> float | None:
        """In how many seconds to look again although nothing has changed."""


class Applier(Protocol):
    @property
    def retry_in(self) -> float | None: ...

    async def apply(self, intents: Sequence[Intent], /) -> None: ...


class Loop:
    def __init__(self, applier: Applier, metrics: Metrics, changes: "Changes") -> None:
        self._applier = applier
        self._metrics = metrics
        self._changes = changes
        self._round_began: float | None = None
        self._look_again: float | None = None
        self._succeeded = False

    @property
    def is_ready(self) -> bool:
        """Whether the last decision was made, and all that it asked for was written."""
        return self._succeeded

    @property
    def is_stuck(self) -> bool:
        return self._round_began is not None and time.monotonic() - self._round_began > _STUCK_AFTER

    async def run(self, decider: Decides) -> None:
        while True:
            self._round_began = time.monotonic()
            await self._round(decider)
            self._round_began = None
            moments = (self._applier.retry_in, self._look_again)
            await self._changes.wait(min((moment for moment in moments if moment is not None), default=None))

    async def _round(self, decider: Decides) -> None:
        self._changes.seen()
        began = time.perf_counter()
        try:
            moment = now()
            for _ in decider.steps(now=moment):
                await asyncio.sleep(0)
            decider.fold_statuses(now=moment)
            intents = [*decider.pending, *decider.take_events()]
            self._look_again = decider.next_in(now=moment)
        except Exception:
            # Nothing to try again: on the same world it would fail the same way.
            log.exception("cannot decide")
            self._metrics.could_not_decide()
            self._succeeded = False
            return
        self._metrics.decided(time.perf_counter() - began)
        await self._applier.apply(intents)
        self._succeeded = self._applier.retry_in is None


class Changes:
    """Whether anything has changed that no decision has seen, and for how long."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._since: float | None = None

    @property
    def age(self) -> float:
        return time.monotonic() - self._since if self._since is not None else 0.0

    def happened(self) -> None:
        if self._since is None:
            self._since = time.monotonic()
            self._happened.set()

    def seen(self) -> None:
        self._since = None
        self._happened.clear()

    async def wait(self, at_most: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._happened.wait()
        await asyncio.sleep(_SETTLE)
