"""Who is on a GPU, in as many columns as there are: the first by name, the others by number."""

from collections.abc import Sequence
from typing import Final

from gpusharing.cli.top.amounts import memory
from gpusharing.cli.top.columns import Cell, clipped, printable
from gpusharing.occupancy.fleet import GpuUse, Holder

_FROM_WIDTH: Final = 60
"""From which it is also said what each has."""


def who(gpu: GpuUse, width: int) -> Sequence[Cell]:
    health = [Cell(f"{printable(gpu.health)} ", "bold red")] if gpu.health else []
    room = width - sum(len(cell.text) for cell in health)
    if gpu.is_idle:
        return [*health, Cell(clipped(_free(gpu), room), "dim")]
    return [*health, *_holders(gpu, room, detailed=width >= _FROM_WIDTH)]


def _free(gpu: GpuUse) -> str:
    return f"free: {', '.join(gpu.offers)}" if gpu.offers else "free, as it was found"


def _holders(gpu: GpuUse, width: int, *, detailed: bool) -> Sequence[Cell]:
    named = list(dict.fromkeys(_holder(one, detailed=detailed) for one in gpu.holders))
    hidden = f"{gpu.hidden} of other namespaces" if gpu.hidden else ""
    for count in range(len(named), 0, -1):
        text = ", ".join(named[:count]) + (f" +{len(named) - count}" if count < len(named) else "")
        tail = f" and {hidden}" if hidden else ""
        if len(text) + len(tail) <= width:
            return [Cell(text), Cell(tail, "dim")]
    if not named:
        return [Cell(clipped(hidden, width), "dim")]
    others = len(named) - 1 + gpu.hidden
    tail = f" +{others}" if others else ""
    return [Cell(clipped(named[0], max(width - len(tail), 1))), Cell(tail, "dim")]


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
