"""What this process has seen of the last day. A ring: its memory does not grow."""

import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpusharing.occupancy.fleet import Fleet
from gpusharing.ui.rows import IDLE, PROBLEM, state
from gpusharing.ui.viewing import STATES

DAY: Final = 24 * 3600
EVERY: Final = 60
"""Seconds between two samples."""


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    """Seconds since 1970."""
    gpus: tuple[int, ...]
    """By state, in the order of STATES."""
    promised: float
    """GPUs."""
    waiting: int
    """Pods."""

    def of(self, wanted: str) -> int:
        return self.gpus[STATES.index(wanted)]

    @property
    def in_use(self) -> int:
        return sum(self.gpus) - self.of(IDLE) - self.of(PROBLEM)


def sample(fleet: Fleet, at: float) -> Sample:
    counts = states(fleet)
    return Sample(at, tuple(counts.get(one, 0) for one in STATES), fleet.total.ratio, len(fleet.waiting))


def states(fleet: Fleet) -> Mapping[str, int]:
    return Counter(state(gpu) for node in fleet.nodes for gpu in node.gpus)


class History:
    """Written by one thread, read by others."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=DAY // EVERY)
        self._lock = threading.Lock()

    def add(self, one: Sample) -> None:
        with self._lock:
            self._samples.append(one)

    def samples(self) -> Sequence[Sample]:
        with self._lock:
            return list(self._samples)
