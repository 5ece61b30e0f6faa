"""What the page says of a GPU and of a node, in words and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpusharing.api.names import Sharing
from gpusharing.occupancy.fleet import GpuUse, Holder, NodeUse
from gpusharing.ui.bars import STYLES, Bar, bar, name_of

_NAMED: Final = 6
"""Claims that a row names; the rest is counted."""
_UNITS: Final = {Sharing.EXCLUSIVE: "GPU", Sharing.MIG: "slice"}
IDLE: Final = "idle"
PROBLEM: Final = "problem"


class Who(NamedTuple):
    name: str
    style: str
    details: str
    """Its part: 20 of 18 GiB used, 3g.40gb."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    id: str
    path: str
    name: str
    model: str
    policy: str
    state: str
    """A mode, idle or problem: its colour."""
    mode: str
    shares: str
    offers: str
    bar: Bar
    memory: str
    busy: str
    who: tuple[Who, ...]
    more: int
    """Claims that are not named here, although they may be."""
    hidden: int
    health: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRows:
    id: str
    name: str
    summary: str
    problem: str
    gpus: tuple[GpuRow, ...]


def node_rows(node: NodeUse, shown: Sequence[GpuUse]) -> NodeRows:
    in_use = sum(not gpu.is_idle for gpu in node.gpus)
    count = len(node.gpus)
    left_out = count - len(shown)
    summary = f"{count} GPU{'' if count == 1 else 's'}, {in_use} in use"
    return NodeRows(
        id=f"node-{node.name}",
        name=node.name,
        summary=f"{summary}, {left_out} not shown" if left_out else summary,
        problem=node.problem,
        gpus=tuple(map(gpu_row, shown)),
    )


def gpu_row(gpu: GpuUse) -> GpuRow:
    named = gpu.holders[:_NAMED]
    return GpuRow(
        id=f"gpu-{gpu.node}-{gpu.slot}",
        path=f"gpu/{gpu.node}/{gpu.name}",
        name=gpu.name,
        model=gpu.model.removeprefix("NVIDIA "),
        policy=gpu.policy or "",
        state=state(gpu),
        mode=" and ".join(gpu.modes) or IDLE,
        shares=_shares(gpu),
        offers=", ".join(gpu.offers),
        bar=bar(gpu),
        memory=_memory(gpu),
        busy=percent(gpu.utilization),
        who=tuple(Who(name_of(one), STYLES[one.mode], part(one)) for one in named),
        more=len(gpu.holders) - len(named),
        hidden=gpu.hidden,
        health=gpu.health,
    )


def state(gpu: GpuUse) -> str:
    if gpu.health:
        return PROBLEM
    return STYLES[gpu.modes[0]] if gpu.modes else IDLE


def part(holder: Holder) -> str:
    """What a claim was promised, and what of it is used."""
    parts = [holder.profile] if holder.profile else []
    if holder.memory_promised is not None:
        used = f"{gib(holder.memory_used)} of " if holder.memory_used is not None else ""
        parts.append(f"{used}{gib(holder.memory_promised)} GiB")
    elif holder.memory_used is not None:
        parts.append(f"{gib(holder.memory_used)} GiB used")
    if holder.mode in {Sharing.TIME_SLICING, Sharing.MPS} and holder.shares > 1:
        parts.append(f"{holder.shares} shares")
    return ", ".join(parts)


def _shares(gpu: GpuUse) -> str:
    if gpu.shares_total is None:
        return ""
    mode = gpu.modes[0] if gpu.modes else (gpu.offers or (None,))[0]
    unit = _UNITS.get(mode, "share") if mode else "share"
    return f"{gpu.shares_taken} of {gpu.shares_total} {unit}{'' if gpu.shares_total == 1 else 's'}"


def _memory(gpu: GpuUse) -> str:
    if not gpu.memory:
        return ""
    used = f", {gib(gpu.memory_used)} used" if gpu.memory_used is not None else ""
    return f"{gib(gpu.memory_promised)} of {gib(gpu.memory)} GiB{used}"


def gib(mebibytes: int) -> str:
    """Small amounts with a digit behind the point."""
    amount = mebibytes / 1024
    return f"{amount:.0f}" if amount >= 10 or amount == int(amount) else f"{amount:.1f}"


def percent(part_: float | None) -> str:
    return "" if part_ is None else f"{100 * part_:.0f} %"
