"""Who is on a GPU, in as many columns as there are: the first by name, the others by number."""

from collections.abc import Sequence
from typing import Final

from gpusharing.cli.top.amounts import memory
from gpusharing.cli.top.columns import Cell, clipped
from gpusharing.findings.printable import printable
from gpusharing.occupancy.fleet import GpuUse, Holder

_FROM_WIDTH: Final = 60
"""From which it is also said what each has."""


def who(gpu: GpuUse, width: int) -> Sequence[Cell]:
    if gpu.is_idle and gpu.health:
        return [Cell(clipped(printable(gpu.health), width), "bold red")]
    if gpu.is_idle:
        return [Cell(_free(gpu, width), "dim")]
    health = [Cell(f"{printable(gpu.health)} ", "bold red")] if gpu.health else []
    room = width - sum(len(cell.text) for cell in health)
    return [*health, *_holders(gpu, room, detailed=width >= _FROM_WIDTH)]


def _free(gpu: GpuUse, width: int) -> str:
    if gpu.offers is None:
        return clipped("free, as it was found", width)
    if not gpu.offers:
        return clipped("not offered now", width)
    start = "reserved: " if gpu.restricted else "free: "
    return clipped(f"{start}{_first([mode.value for mode in gpu.offers], width - len(start))}", width)


def _first(names: Sequence[str], width: int) -> str:
    """As many as there is room for, and how many more there are; one at least."""
    for count in range(len(names), 1, -1):
        text = ", ".join(names[:count]) + (f" +{len(names) - count}" if count < len(names) else "")
        if len(text) <= width:
            return text
    others = f" +{len(names) - 1}" if len(names) > 1 else ""
    return clipped(names[0], max(width - len(others), 1)) + others


def _holders(gpu: GpuUse, width: int, *, detailed: bool) -> Sequence[Cell]:
    named = list(dict.fromkeys(_holder(one, detailed=detailed) for one in gpu.holders))
    hidden = f"{gpu.hidden} of other namespaces" if gpu.hidden else ""
    if not named:
        return [Cell(clipped(hidden, width), "dim")]
    tail = f" and {hidden}" if hidden else ""
    if len(named[0]) + len(tail) > width and hidden:
        tail = f" +{gpu.hidden}"
    return [Cell(_first(named, max(width - len(tail), 1))), Cell(tail, "dim")]


def _holder(holder: Holder, *, detailed: bool) -> str:
    pods = holder.pods
    name = f"{pods[0]}{f'+{len(pods) - 1}' if len(pods) > 1 else ''}" if pods else f"claim {holder.claim}"
    text = f"{holder.namespace}/{name}"
    if not detailed:
        return text
    promised = holder.profile or (memory(holder.memory_promised) if holder.memory_promised else "")
    used = f"{memory(holder.memory_used)} used" if holder.memory_used is not None else ""
    found = ", ".join(part for part in (promised, used) if part)
    return f"{text} ({found})" if found else text
