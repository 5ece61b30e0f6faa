"""What is read of the cluster for each viewer. Nothing of it is shared: what one may see never comes to another."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from http import HTTPStatus
from typing import Final, NamedTuple

from gpusharing.ui.exchange import Answer, RefusedError, Request, Site
from gpusharing.ui.pages import Viewer
from gpusharing.ui.viewers.tokens import digest

IDLE: Final = 600.0
"""Seconds without a request, after which a viewer's lists are given up."""
_NOBODY_LOOKS: Final = 60.0
"""The same where others wait."""
MOST_OF_ONE: Final = 2
"""Of one person: with several tokens, or namespaces."""
STREAMS: Final = 6
"""Open pages of a viewer: a browser has as many connections."""
ANSWERS: Final = 4
"""Of a viewer at a time."""
_PATIENCE: Final = 10.0

Open = Callable[["Visit"], AbstractContextManager[Site]]


class Visit(NamedTuple):
    """Who reads what. The same again is answered from the same lists."""

    token: str
    viewer: Viewer

    @property
    def key(self) -> "_Key":
        return digest(self.token), self.viewer


_Key = tuple[bytes, Viewer]


class Reading:
    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.seen = now
        self.streams = threading.BoundedSemaphore(STREAMS)
        self.is_ended = False
        self._answers = threading.BoundedSemaphore(ANSWERS)
        self._site: Future[Site] = Future()
        self._open = ExitStack()
        self._lock = threading.Lock()

    def begin(self, opened: AbstractContextManager[Site]) -> None:
        """Raises what `opened` raises, and so do those who wait for it."""
        try:
            site = self._open.enter_context(opened)
        except BaseException as error:
            self._site.set_exception(error)
            raise
        self._site.set_result(site)
        with self._lock:
            if self.is_ended:
                self._close()

    def end(self) -> None:
        with self._lock:
            self.is_ended = True
            if self._site.done():
                self._close()

    def _close(self) -> None:
        # A request that is on its way may take a while to end.
        threading.Thread(target=self._open.pop_all().close, name="end of a reading", daemon=True).start()

    def answer(self, request: Request) -> Answer:
        """One viewer does not keep the others waiting."""
        site = self._site.result()
        if not self._answers.acquire(timeout=_PATIENCE):
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "you ask for too much at a time")
        try:
            return site.answer(request)
        finally:
            self._answers.release()


class Readings:
    """Used by several threads."""

    def __init__(self, open_: Open, *, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._open = open_
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._readings: dict[_Key, Reading] = {}

    def of(self, visit: Visit) -> Reading:
        """Raises RefusedError if there are too many, and SourceError if the cluster cannot be read."""
        key, name = visit.key, visit.viewer.name
        with self._lock:
            reading = self._readings.get(key)
            is_new = reading is None
            if reading is None:
                self._make_room(name)
                reading = self._readings[key] = Reading(name, self._clock())
            reading.seen = self._clock()
        if is_new:
            try:
                reading.begin(self._open(visit))
            except BaseException:
                self._end([key])
                raise
        return reading

    def touch(self, reading: Reading) -> None:
        reading.seen = self._clock()

    def end_of(self, token: str) -> None:
        wanted = digest(token)
        self._end([key for key in list(self._readings) if key[0] == wanted])

    def end_idle(self) -> None:
        now = self._clock()
        self._end([key for key, reading in list(self._readings.items()) if now >= reading.seen + IDLE])

    def close(self) -> None:
        self._end(list(self._readings))

    def _make_room(self, name: str) -> None:
        found = sorted(self._readings.items(), key=lambda one: one[1].seen)
        of_one = [(key, reading) for key, reading in found if reading.name == name]
        if len(of_one) >= MOST_OF_ONE:
            key, oldest = of_one[0]
        elif len(found) >= self._most:
            key, oldest = found[0]
            if self._clock() < oldest.seen + _NOBODY_LOOKS:
                raise RefusedError(
                    HTTPStatus.SERVICE_UNAVAILABLE, f"{self._most} people look at this page; try again later"
                )
        else:
            return
        del self._readings[key]
        oldest.end()

    def _end(self, keys: list[_Key]) -> None:
        with self._lock:
            ended = [reading for key in keys if (reading := self._readings.pop(key, None)) is not None]
        for reading in ended:
            reading.end()
