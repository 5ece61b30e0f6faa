"""Prometheus' text format 0.0.4, as much of it as the agent needs.

The operator has prometheus_client, which takes more memory than each of a thousand agents should give for it.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal, Protocol, TypeAlias

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Values: TypeAlias = Mapping[tuple[str, ...], float]
"""By the values of the labels, in their order."""


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


class Family(Protocol):
    @property
    def metric(self) -> Metric: ...

    def lines(self) -> Iterator[str]: ...


class Reading:
    """What others keep, read when somebody asks for it."""

    def __init__(self, metric: Metric, read: Callable[[], Values]) -> None:
        self.metric = metric
        self._read = read

    def lines(self) -> Iterator[str]:
        for labels, value in self._read().items():
            yield _line(self.metric.name, zip(self.metric.labels, labels, strict=True), value)


class Counter(Reading):
    def __init__(self, metric: Metric, *known: tuple[str, ...]) -> None:
        """`known` are there before they have happened, so that their first time is seen as an increase."""
        self._counts: dict[tuple[str, ...], float] = dict.fromkeys(known, 0)
        super().__init__(metric, lambda: self._counts)

    def increase(self, *labels: str) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + 1


class Histogram:
    def __init__(self, metric: Metric, bounds: Sequence[float]) -> None:
        """`bounds` ascend; each belongs to its bucket."""
        self.metric = metric
        self._bounds = (*bounds, math.inf)
        self._counts: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * len(self._bounds))
        self._sums: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def observe(self, value: float, *labels: str) -> None:
        self._counts[labels][bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def lines(self) -> Iterator[str]:
        name = self.metric.name
        for values, counts in self._counts.items():
            labels = list(zip(self.metric.labels, values, strict=True))
            for bound, below in zip(self._bounds, accumulate(counts), strict=True):
                yield _line(f"{name}_bucket", [*labels, ("le", _number(bound))], below)
            yield _line(f"{name}_sum", labels, self._sums[values])
            yield _line(f"{name}_count", labels, sum(counts))


def exposition(families: Iterable[Family]) -> bytes:
    # What others have named has any characters. One that UTF-8 does not have is no reason to tell nothing.
    return "".join(f"{line}\n" for family in families for line in _family(family)).encode(errors="replace")


def _family(family: Family) -> Iterator[str]:
    metric = family.metric
    meaning = metric.meaning.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {metric.name} {meaning}"
    yield f"# TYPE {metric.name} {metric.kind}"
    yield from family.lines()


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return "+Inf" if value == math.inf else str(value)
