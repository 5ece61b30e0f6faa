"""Records Events beside the writes of objects: each occurrence once, a few a second, and not at any price."""

import asyncio
import hashlib
import time
from collections import Counter, OrderedDict
from typing import Final, NamedTuple

import structlog

from gpusharing.controller.metrics import EventResult, Metrics
from gpusharing.controller.targets import KINDS
from gpusharing.core.intents import RecordEvent
from gpusharing.kube.clock import now_precisely
from gpusharing.kube.events import Events, EventType
from gpusharing.kube.retry import Backoff
from gpusharing.kube.transport import ApiError, UnreachableError

log = structlog.get_logger(__name__)

_QUEUED: Final = 2000
_REMEMBERED: Final = 20_000
_OF_A_REASON: Final = 300
"""In a period."""
_PERIOD: Final = 60.0
_PER_SECOND: Final = 20.0
_BURST: Final = 100
_AT_ONCE: Final = 4
_ATTEMPTS: Final = 6
_BACKOFF: Final = Backoff(0.5, 15.0)


class _Queued(NamedTuple):
    event: RecordEvent
    identity: str
    moment: str


class EventRecorder:
    def __init__(self, events: Events, metrics: Metrics) -> None:
        self._events = events
        self._metrics = metrics
        self._queue: asyncio.Queue[_Queued] = asyncio.Queue(_QUEUED)
        self._known: OrderedDict[str, None] = OrderedDict()
        """What is queued or has been recorded."""
        self._admitted: Counter[str] = Counter()
        """By reason, in this period."""
        self._suppressed: dict[str, str] = {}
        """In this period, with their reasons."""
        self._pace = _Pace()

    def record(self, event: RecordEvent) -> None:
        """Once, however often it is asked for. What is suppressed now may be recorded when it is asked for again."""
        identity = _identity(event)
        if identity in self._known:
            self._known.move_to_end(identity)
        elif self._admitted[event.reason] >= _OF_A_REASON or self._queue.full():
            self._suppress(event, identity)
        else:
            self._admitted[event.reason] += 1
            self._remember(identity)
            self._queue.put_nowait(_Queued(event, identity, now_precisely()))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._count_anew())
            for _ in range(_AT_ONCE):
                tasks.create_task(self._work())

    def _remember(self, identity: str) -> None:
        self._known[identity] = None
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def _suppress(self, event: RecordEvent, identity: str) -> None:
        """Counted once in a period, however often it is asked for."""
        if identity not in self._suppressed and len(self._suppressed) < _REMEMBERED:
            self._suppressed[identity] = event.reason
            self._metrics.recorded(EventResult.SUPPRESSED)

    async def _count_anew(self) -> None:
        while True:
            await asyncio.sleep(_PERIOD)
            if self._suppressed:
                log.warning("events suppressed", **Counter(self._suppressed.values()))
            self._admitted.clear()
            self._suppressed.clear()

    async def _work(self) -> None:
        while True:
            queued = await self._queue.get()
            await self._pace.wait()
            self._metrics.recorded(await self._attempt(queued))

    async def _attempt(self, queued: _Queued) -> EventResult:
        event, delays = queued.event, iter(_BACKOFF)
        fields = {"kind": event.target, "object": event.about.name, "reason": event.reason, "note": event.note}
        for _ in range(_ATTEMPTS):
            problem: Exception
            try:
                await self._post(queued)
            except ApiError as error:
                if error.status == 409:
                    # By this replica before it was restarted, or by the one that led before.
                    return EventResult.ALREADY_RECORDED
                if 400 <= error.status < 500 and error.status != 429:
                    log.warning("event refused", error=str(error), **fields)
                    return EventResult.REFUSED
                problem = error
            except UnreachableError as error:
                problem = error
            except Exception:
                log.exception("event not recorded", **fields)
                return EventResult.FAILED
            else:
                log.info("event recorded", **fields)
                return EventResult.RECORDED
            await asyncio.sleep(next(delays))
        log.warning("event not recorded", error=str(problem), **fields)
        return EventResult.FAILED

    async def _post(self, queued: _Queued) -> None:
        event = queued.event
        await self._events.record(
            KINDS[event.target],
            event.about,
            type_=EventType.WARNING if event.warning else EventType.NORMAL,
            action=event.action,
            reason=event.reason,
            note=event.note,
            moment=queued.moment,
            identity=queued.identity,
        )


class _Pace:
    """So many at once, and then so many a second."""

    def __init__(self) -> None:
        self._left = float(_BURST)
        self._counted_at = time.monotonic()

    async def wait(self) -> None:
        now = time.monotonic()
        self._left = min(_BURST, self._left + (now - self._counted_at) * _PER_SECOND) - 1
        self._counted_at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / _PER_SECOND)


def _identity(event: RecordEvent) -> str:
    """The same in every replica. An object that was deleted and made again is another one, by its uid."""
    about = event.about
    parts = event.target, about.namespace, about.name, about.uid, event.reason, event.occurrence
    text = "\n".join(parts).encode(errors="backslashreplace")
    return hashlib.blake2b(text, digest_size=10).hexdigest()
