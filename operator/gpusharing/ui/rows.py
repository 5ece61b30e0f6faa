"""What the page says of a GPU and of a node, in words and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpusharing.api.names import Sharing
from gpusharing.occupancy.fleet import GpuUse, Holder, NodeUse
from gpusharing.ui.bars import STYLES, Bar, bar, name_of

NAMED: Final = 6
"""Claims that a row names; the rest is counted."""
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
    free: str
    """For what, if nobody has it."""
    bar: Bar
    part: str
    """The bar in words."""
    memory: str
    measured: str
    """What is used of it."""
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


def node_rows(node: NodeUse, shown: Sequence[GpuUse], *, named: int = NAMED) -> NodeRows:
    models = {_model(gpu) for gpu in node.gpus}
    is_mixed = len(models) > 1
    parts = [f"{len(node.gpus)} {'GPUs' if is_mixed or not node.gpus else f'x {models.pop()}'}"]
    parts.append(f"{sum(not gpu.is_idle for gpu in node.gpus)} in use")
    if left_out := len(node.gpus) - len(shown):
        parts.append(f"{left_out} not shown")
    return NodeRows(
        id=f"node-{node.name}",
        name=node.name,
        summary=", ".join(parts),
        problem=node.problem,
        gpus=tuple(gpu_row(gpu, with_model=is_mixed, named=named) for gpu in shown),
    )


def gpu_row(gpu: GpuUse, *, with_model: bool = True, named: int = NAMED) -> GpuRow:
    shown = gpu.holders[:named]
    return GpuRow(
        id=f"gpu-{gpu.node}-{gpu.slot}",
        path=f"gpu/{gpu.node}/{gpu.name}",
        name=gpu.name,
        model=_model(gpu) if with_model else "",
        policy=gpu.policy or "",
        state=state(gpu),
        mode=" and ".join(gpu.modes) or IDLE,
        shares=_shares(gpu),
        free=_free(gpu),
        bar=bar(gpu),
        part=percent(gpu.ratio) or "not known",
        memory=_memory(gpu),
        measured=_measured(gpu),
        who=tuple(Who(name_of(one), STYLES[one.mode], part(one)) for one in shown),
        more=len(gpu.holders) - len(shown),
        hidden=gpu.hidden,
        health=gpu.health,
    )


def _free(gpu: GpuUse) -> str:
    if gpu.health:
        return "not usable"
    if gpu.offers is None:
        return "free for claims"
    if not gpu.offers:
        return "not offered now"
    modes = "any mode" if len(gpu.offers) == len(Sharing) else ", ".join(gpu.offers)
    return f"{'reserved, ' if gpu.restricted else ''}free for {modes}"


def _model(gpu: GpuUse) -> str:
    return gpu.model.removeprefix("NVIDIA ") or "GPU"


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
    """Of a whole GPU, everybody knows."""
    if gpu.shares_total is None or not gpu.modes or gpu.modes[0] is Sharing.EXCLUSIVE:
        return ""
    unit = "slices" if gpu.modes[0] is Sharing.MIG else "shares"
    return f"{gpu.shares_taken} of {gpu.shares_total} {unit}"


def _memory(gpu: GpuUse) -> str:
    if not gpu.memory:
        return ""
    promised = f"{gib(gpu.memory_promised)} of " if gpu.memory_promised else ""
    return f"{promised}{gib(gpu.memory)} GiB"


def _measured(gpu: GpuUse) -> str:
    parts = [f"{gib(gpu.memory_used)} GiB used"] if gpu.memory_used is not None else []
    if gpu.utilization is not None:
        parts.append(f"{percent(gpu.utilization)} busy")
    return ", ".join(parts)


def gib(mebibytes: int) -> str:
    """Small amounts with a digit behind the point."""
    amount = mebibytes / 1024
    return f"{amount:.0f}" if amount >= 10 or amount == int(amount) else f"{amount:.1f}"


def percent(part_: float | None) -> str:
    return "" if part_ is None else f"{100 * part_:.0f} %"
