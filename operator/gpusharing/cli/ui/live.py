"""A cluster as the source of the page: watches, and what is read when somebody looks closer."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self

from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.cluster import Ask, Found, read_list, world_of
from gpusharing.cli.reading.explained import Explained
from gpusharing.cli.reading.fleet import Lists, LiveLists, fleet_of, read_lists, waiting_of
from gpusharing.cli.reading.history import read_history
from gpusharing.cli.reading.use import read_usage
from gpusharing.cli.reading.watching import Heard, Watched
from gpusharing.cli.ui.answering import answering
from gpusharing.explaining.scene import Scene
from gpusharing.findings.finding import Finding
from gpusharing.occupancy import notes
from gpusharing.occupancy.usage import Usage
from gpusharing.planning.changes import Plan
from gpusharing.snapshots.world import POLICIES, World
from gpusharing.ui.gathered import Gathered
from gpusharing.ui.history import EVERY, History, Sample, sample
from gpusharing.ui.picture import Picture, PlanError
from gpusharing.ui.planning import plan_of

_SETTLE: Final = 0.05
"""Seconds in which changes are collected."""
_FIRST: Final = 20.0
"""Seconds until the page is served, also if the cluster was not read by then."""
_EXPLAINED_EVERY: Final = 0.25
"""Seconds after which it is asked whether it is time to explain again."""
_MEASURED_EVERY: Final = 15.0
_HISTORY_EVERY: Final = 300.0
_NOBODY_LOOKS: Final = 120.0
_BETWEEN: Final = 0.15
"""Seconds between two pictures."""
_SELDOM: Final = 5.0
"""The same while nobody looks."""


class LiveSource:
    def __init__(
        self,
        client: Client,
        namespace: str,
        read: Callable[[], World],
        *,
        prometheus: str | None = None,
        planning: threading.BoundedSemaphore | None = None,
    ) -> None:
        """`read`: all that a plan uses. `prometheus`: its URL. `planning`: held by a source that makes a plan, because
        that takes memory. Raises CommandError."""
        self._client = client
        self._read = read
        self._prometheus = prometheus
        self._lock = threading.Lock()
        self._heard: list[Callable[[], None]] = []
        self._gathered = Gathered()
        self._explained = Explained(client)
        self._usage = Usage()
        self._history = History()
        self._former: Sequence[Sample] = ()
        """From Prometheus."""
        self._sampled_at = 0.0
        self._looked_at = time.monotonic()
        self._planning = planning or threading.BoundedSemaphore()
        self._picture = Picture(problem="The cluster is being read.")
        self._is_new = threading.Condition()
        self._closed = threading.Event()
        heard: dict[str, Heard] = {"node_sharings": self._gathered.put_sharing, "claims": self._gathered.put_claim}
        self.lists = LiveLists(client, namespace, {name: partial(self._hear, put) for name, put in heard.items()})
        self._policies = Watched(client, Ask(POLICIES), lambda *_: self.lists.wake())

    def __enter__(self) -> Self:
        for work in (self._draw_often, self._explain, self._measure):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()
        with self._is_new:
            self._is_new.wait_for(lambda: self._picture.number, _FIRST)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self.lists.wake()

    # --------------------------------------------------------------------------------------------------------- pictures

    @property
    def samples(self) -> Sequence[Sample]:
        return self._former or self._history.samples()

    def picture(self) -> Picture:
        self._looked_at = time.monotonic()
        return self._picture

    def later(self, number: int, patience: float) -> Picture:
        with self._is_new:
            self._is_new.wait_for(lambda: self._picture.number != number, patience)
        return self.picture()

    def _hear(self, put: Heard, old: Any, new: Any) -> None:
        """From the thread of a watch."""
        with self._lock:
            self._heard.append(partial(put, old, new))

    @property
    def _is_seen(self) -> bool:
        return time.monotonic() - self._looked_at <= _NOBODY_LOOKS

    def _draw_often(self) -> None:
        while not self._closed.is_set():
            if self.lists.wait(EVERY):
                self._closed.wait(_SETTLE)
            began = time.monotonic()
            try:
                self._draw(self.lists.read())
            except Exception as error:  # noqa: BLE001 (an object that we do not understand must not stop the page)
                self._show(replace(self._picture, problem=f"The page is out of date: {type(error).__name__}: {error}"))
            # A large fleet that changes all the time leaves half of a processor to others.
            self._closed.wait(max(_BETWEEN, time.monotonic() - began) if self._is_seen else _SELDOM)

    def _draw(self, lists: Lists | None) -> None:
        problem = self.lists.problem or self._policies.problem
        if lists is None:
            if problem:
                self._show(replace(self._picture, problem=problem))
            return
        with self._lock:
            heard, self._heard = self._heard, []
        for put in heard:
            put()
        world = lists.world()
        waiting = self._explained.waiting(lists)
        fleet = self._gathered.fleet(world, self._usage, waiting=waiting, notes=_notes(world, self._usage))
        if (now := time.time()) >= self._sampled_at + EVERY:
            self._sampled_at = now
            self._history.add(sample(fleet, now))
        self._show(Picture(fleet=fleet, policies=_policies(self._policies.found()), problem=problem))

    def _show(self, picture: Picture) -> None:
        with self._is_new:
            self._picture = replace(picture, number=self._picture.number + 1)
            self._is_new.notify_all()

    def _explain(self) -> None:
        """Why pods wait, while somebody looks."""
        while not self._closed.wait(_EXPLAINED_EVERY):
            if self._is_seen and (lists := self.lists.read()) is not None and self._explained.ask(lists):
                self.lists.wake()

    def _measure(self) -> None:
        """What claims use, as often as it is measured, and the last day, while somebody looks."""
        next_history = 0.0
        while not self._closed.is_set():
            if self._is_seen:
                try:
                    self._usage = read_usage(self._client, self._prometheus)
                    if self._prometheus and time.monotonic() >= next_history:
                        self._former = read_history(self._prometheus)
                        next_history = time.monotonic() + _HISTORY_EVERY
                except Exception as error:  # noqa: BLE001 (whatever an agent or a Prometheus says)
                    self._usage = Usage(missing=notes.not_measured(str(error), "Wait until it answers again."))
                self.lists.wake()
            self._closed.wait(_MEASURED_EVERY)

    @answering
    def plan(self, text: bytes) -> Plan:
        if not self._planning.acquire(blocking=False):
            raise PlanError("Another plan is being made. Try again when it is there.")
        try:
            return plan_of(text, self._read)
        finally:
            self._planning.release()


def picture_now(client: Client, namespace: str, prometheus: str | None) -> Picture:
    """Read once. Raises CommandError."""
    lists = read_lists(client, namespace)
    fleet = fleet_of(lists, waiting_of(client, lists), read_usage(client, prometheus))
    return Picture(fleet=fleet, policies=_policies(read_list(client, Ask(POLICIES))))


def _notes(world: World, usage: Usage) -> Sequence[Finding]:
    return [*notes.notes(world), *([usage.missing] if usage.missing else [])]


def _policies(found: Found) -> tuple[SharingPolicy, ...] | None:
    """Those that can be decoded. None: they may not be read."""
    if found.unread:
        return None
    policies = Scene(world=world_of(0, {POLICIES.field: found})).policies
    return tuple(policies[name] for name in sorted(policies))
