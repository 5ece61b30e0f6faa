"""A GPU as a bar: which part of it belongs to which claim, and what is free."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from gpusharing.api.names import Sharing
from gpusharing.occupancy.fleet import GpuUse, Holder

STYLES: Final = {
    Sharing.EXCLUSIVE: "exclusive",
    Sharing.TIME_SLICING: "timeslicing",
    Sharing.MPS: "mps",
    Sharing.MIG: "mig",
}
HIDDEN: Final = "others"
_MOST_CELLS: Final = 16
"""Shares that are drawn one by one; more would only be stripes."""


class Segment(NamedTuple):
    """In percent of the bar."""

    start: float
    width: float
    style: str
    label: str


class Bar(NamedTuple):
    segments: tuple[Segment, ...]
    cells: tuple[float, ...]
    """Where one free share ends and the next begins."""


def bar(gpu: GpuUse) -> Bar:
    segments: list[Segment] = []
    start = 0.0
    for width, style, label in _parts(gpu):
        kept = min(width, 100.0 - start)
        if kept > 0:
            segments.append(Segment(round(start, 2), round(kept, 2), style, label))
        start += width
    total = gpu.shares_total or 1
    ends = [100.0 * number / total for number in range(1, total)] if segments and total <= _MOST_CELLS else []
    return Bar(tuple(segments), tuple(round(end, 2) for end in ends if end > start + 0.1))


def _parts(gpu: GpuUse) -> Iterator[tuple[float, str, str]]:
    total = gpu.shares_total if len(gpu.modes) <= 1 else None
    for holder in gpu.holders:
        yield _width(holder, total), STYLES[holder.mode], name_of(holder)
    if not gpu.hidden:
        return
    label = f"{gpu.hidden} of other namespaces"
    if total:
        known = sum(holder.shares for holder in gpu.holders)
        yield 100.0 * max(gpu.shares_taken - known, 0) / total, HIDDEN, label
    else:
        yield 100.0 * max((gpu.ratio or 0.0) - sum(one.ratio or 0.0 for one in gpu.holders), 0.0), HIDDEN, label


def _width(holder: Holder, total: int | None) -> float:
    return 100.0 * (holder.shares / total if total else holder.ratio or 0.0)


def name_of(holder: Holder) -> str:
    """Of its pods, which people know better than their claims."""
    if not holder.pods:
        return f"{holder.namespace}/{holder.claim}"
    more = f" +{len(holder.pods) - 1}" if len(holder.pods) > 1 else ""
    return f"{holder.namespace}/{holder.pods[0]}{more}"
