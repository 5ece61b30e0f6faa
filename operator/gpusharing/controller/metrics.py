"""What the operator tells Prometheus."""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from gpusharing.controller.figures_metrics import FiguresCollector
from gpusharing.core.figures.figures import Figures
from gpusharing.core.intents import Intent
from gpusharing.kube.kinds import Kind
from gpusharing.kube.unreadable import Unreadables


class Result(StrEnum):
    WRITTEN = "written"
    CONFLICT = "conflict"
    """Somebody else was faster; the next decision is made on what that was."""
    FAILED = "failed"


class EventResult(StrEnum):
    RECORDED = "recorded"
    ALREADY_RECORDED = "already_recorded"
    REFUSED = "refused"
    FAILED = "failed"
    SUPPRESSED = "suppressed"
    """More than are recorded in a minute."""


class _UnreadableObjects(Collector):
    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "gpusharing_unreadable_objects", "Unreadable objects received from the API server", labels=["kind"]
        )
        for kind, count in self._counts.items():
            family.add_metric([kind], count)
        return [family]


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.unreadables = Unreadables()
        self._registry.register(_UnreadableObjects(self.unreadables.counts))
        self.figures = FiguresCollector()
        self._registry.register(self.figures)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._decisions = Counter(
            "gpusharing_decisions", "Decisions of the operator", ["result"], registry=self._registry
        )
        self._duration = Histogram(
            "gpusharing_decision_duration_seconds",
            "Duration of a decision, without its writes",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self._registry,
        )
        self._intents = Counter(
            "gpusharing_intents", "Writes that decisions requested", ["kind", "result"], registry=self._registry
        )
        self._failing = Gauge(
            "gpusharing_writes_failing",
            "Objects whose last write failed",
            ["kind"],
            registry=self._registry,
        )
        self._events = Counter(
            "gpusharing_events", "Events that decisions requested", ["result"], registry=self._registry
        )
        self._undecidable = Gauge(
            "gpusharing_undecidable_objects",
            "Objects that the operator cannot decide on; they stay unchanged",
            registry=self._registry,
        )
        self._objects = Gauge("gpusharing_objects", "Objects in the cluster state", ["kind"], registry=self._registry)
        self._lag = Gauge(
            "gpusharing_loop_lag_seconds",
            "Age of the oldest change that is not decided on yet",
            registry=self._registry,
        )
        self._leading = Gauge(
            "gpusharing_leading", "1 while this replica leads, 0 while it stands by", registry=self._registry
        )
        self._settled = Gauge(
            "gpusharing_settled",
            "1 while no decided write is pending; 0 also while this replica stands by",
            registry=self._registry,
        )
        self._broken = Gauge(
            "gpusharing_watch_broken_seconds",
            "Seconds since the watch of a kind broke; 0 while it works",
            ["kind"],
            registry=self._registry,
        )
        self._broken_for: Callable[[], Mapping[str, float]] = dict
        self._cel_is_older = Gauge(
            "gpusharing_cel_older_than_kubernetes",
            "1 while the cluster's Kubernetes is newer than the newest CEL that this operator knows",
            registry=self._registry,
        )
        self._closing = Gauge(
            "gpusharing_closing_guard_entries",
            "Entries of the closing guard: for devices that are being withdrawn, or that were in the last hour",
            ["state"],
            registry=self._registry,
        )
        self._closing_age = Gauge(
            "gpusharing_closing_guard_oldest_seconds",
            "Age of the oldest entry of the closing guard for devices that are being withdrawn; 0 without one",
            registry=self._registry,
        )
        for result in ("succeeded", "failed"):
            self._decisions.labels(result=result)
        for event_result in EventResult:
            self._events.labels(result=event_result)
        for intent in get_args(Intent):
            for outcome in Result:
                self._intents.labels(kind=intent.__name__, result=outcome)

    def decided(self, seconds: float) -> None:
        self._decisions.labels(result="succeeded").inc()
        self._duration.observe(seconds)

    def could_not_decide(self) -> None:
        self._decisions.labels(result="failed").inc()

    def applied(self, intent: Intent, result: Result) -> None:
        self._intents.labels(kind=type(intent).__name__, result=result).inc()

    def undecidable(self, objects: int) -> None:
        self._undecidable.set(objects)

    def recorded(self, result: EventResult) -> None:
        self._events.labels(result=result).inc()

    def evicting(self, claims: Mapping[str, int]) -> None:
        """By policy, claims whose eviction has begun."""
        self.figures.evictions.update(claims)

    def watch_figures(self, figures: Callable[[], Figures | None]) -> None:
        """None while this replica stands by."""
        self.figures.read = figures

    def watch_failing(self, kinds: Iterable[str], count: Callable[[str], int]) -> None:
        for kind in kinds:
            self._failing.labels(kind=kind).set_function(partial(count, kind))

    def watch_store(self, kinds: Collection[Kind[Any]], count: Callable[[Kind[Any]], int]) -> None:
        for kind in kinds:
            self._objects.labels(kind=kind.kind).set_function(partial(count, kind))

    def watch_lag(self, seconds: Callable[[], float]) -> None:
        self._lag.set_function(seconds)

    def watch_leading(self, leads: Callable[[], bool]) -> None:
        self._leading.set_function(leads)

    def watch_settled(self, settled: Callable[[], bool]) -> None:
        self._settled.set_function(settled)

    def watch_watches(self, broken_for: Callable[[], Mapping[str, float]]) -> None:
        self._broken_for = broken_for

    def watch_closing(self, closing: Callable[[], int], withdrawn: Callable[[], int], age: Callable[[], float]) -> None:
        self._closing.labels(state="closing").set_function(closing)
        self._closing.labels(state="withdrawn").set_function(withdrawn)
        self._closing_age.set_function(age)

    def set_cel_is_older(self, is_older: bool) -> None:
        self._cel_is_older.set(is_older)

    def exposition(self) -> bytes:
        for kind, seconds in self._broken_for().items():
            self._broken.labels(kind=kind).set(seconds)
        return generate_latest(self._registry)
