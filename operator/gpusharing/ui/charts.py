"""The last day as a picture: GPUs by state, one above the other, and pods that wait."""

import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gpusharing.ui.history import Sample
from gpusharing.ui.rows import IDLE, PROBLEM
from gpusharing.ui.viewing import STATES

WIDTH: Final = 600
HEIGHT: Final = 120
_DRAWN: Final = (*(one for one in STATES if one not in {IDLE, PROBLEM}), PROBLEM)
_POINTS: Final = 240
"""More than that, nobody sees."""


class Area(NamedTuple):
    style: str
    path: str


class Chart(NamedTuple):
    areas: tuple[Area, ...]
    waiting: str
    """A line."""
    top: int
    """What the height stands for: GPUs."""
    most_waiting: int
    first: str
    last: str
    rows: tuple[tuple[str, int, int], ...]
    """The same in words: time, GPUs in use, pods waiting; a row for each hour."""


def chart(samples: Sequence[Sample]) -> Chart | None:
    """None: there is nothing to draw yet."""
    if len(samples) < 2:
        return None
    drawn = samples[:: -(-len(samples) // _POINTS)]
    drawn = [*drawn, samples[-1]] if drawn[-1] is not samples[-1] else drawn
    begin, span = drawn[0].at, max(drawn[-1].at - drawn[0].at, 1.0)
    xs = [WIDTH * (one.at - begin) / span for one in drawn]
    top = max(1, *(sum(one.gpus) for one in drawn))
    most = max(one.waiting for one in drawn)
    line = zip(xs, (HEIGHT - HEIGHT * one.waiting / max(most, top) for one in drawn), strict=True)
    return Chart(
        areas=tuple(_areas(drawn, xs, top)),
        waiting=_points(list(line)),
        top=top,
        most_waiting=most,
        first=_clock(drawn[0].at),
        last=_clock(drawn[-1].at),
        rows=tuple(_rows(samples)),
    )


def _areas(drawn: Sequence[Sample], xs: Sequence[float], top: int) -> Iterator[Area]:
    below = [0] * len(drawn)
    for style in _DRAWN:
        above = [under + one.of(style) for under, one in zip(below, drawn, strict=True)]
        if above != below:
            edge = [(x, HEIGHT - HEIGHT * y / top) for x, y in zip(xs, above, strict=True)]
            base = [(x, HEIGHT - HEIGHT * y / top) for x, y in zip(xs, below, strict=True)]
            yield Area(style, _points([*edge, *reversed(base)]))
        below = above


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _rows(samples: Sequence[Sample]) -> Iterator[tuple[str, int, int]]:
    hour = None
    for one in samples:
        if (this := int(one.at // 3600)) != hour:
            hour = this
            yield _clock(one.at), one.in_use, one.waiting


def _clock(at: float) -> str:
    return time.strftime("%H:%M", time.gmtime(at))
