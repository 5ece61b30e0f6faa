"""What was measured, and how it is shown: each figure with its goal, times as ratios of something from the same run."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: str
    yardstick: str
    """What a ratio is a ratio of; empty for absolute figures."""
    goal: str
    reached: bool

    def row(self) -> str:
        cells = (self.name, self.value, self.yardstick or "-", self.goal, "yes" if self.reached else "**no**")
        return f"| {' | '.join(cells)} |"


HEADER = "| what | value | in units of | goal | reached |\n|---|---|---|---|---|"


def ratio(name: str, seconds: float, *, unit: float, yardstick: str, at_most: float) -> Figure:
    value = seconds / unit
    return Figure(name, f"{value:.1f}", f"{yardstick} ({unit * 1000:.2f} ms)", f"<= {at_most:g}", value <= at_most)


def relative(name: str, seconds: float, *, unit: float, yardstick: str, at_most: float) -> Figure:
    """To something of the same size."""
    value = seconds / unit
    yardstick = f"{yardstick} ({unit * 1000:.2f} ms)"
    return Figure(name, f"{value:.2f} ({seconds * 1000:.2f} ms)", yardstick, f"<= {at_most:g}", value <= at_most)


def at_least(name: str, value: float, *, note: str, yardstick: str, least: float) -> Figure:
    return Figure(name, f"{value:.2f} ({note})", yardstick, f">= {least:g}", value >= least)


def absolute(name: str, value: float, unit: str, *, at_most: float) -> Figure:
    return Figure(name, f"{value:.2f} {unit}", "", f"<= {at_most:g} {unit}", value <= at_most)


def p50(samples: Sequence[float]) -> float:
    return statistics.median(samples)


def p99(samples: Sequence[float]) -> float:
    return statistics.quantiles(samples, n=100)[98]
