"""What the page says next to the GPUs: sums, pods that wait, policies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gpusharing.api.meta import ConditionStatus
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.rollout import RolloutMode
from gpusharing.core.reasons import ConditionType
from gpusharing.core.text import counted
from gpusharing.explaining.wording import age
from gpusharing.findings.finding import Finding
from gpusharing.occupancy.fleet import Fleet, Waiting
from gpusharing.ui.bars import Segment
from gpusharing.ui.history import states
from gpusharing.ui.pages import MODES
from gpusharing.ui.rows import IDLE, gib, percent

_SHOWN: Final = 30
"""Pods that wait; the rest is counted."""


class Tile(NamedTuple):
    title: str
    value: str
    details: str = ""


class StateCount(NamedTuple):
    style: str
    title: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    tiles: tuple[Tile, ...]
    bar: tuple[Segment, ...]
    states: tuple[StateCount, ...]


class FindingRow(NamedTuple):
    severity: str
    code: str
    title: str
    sentence: str
    remedy: str


class WaitingRow(NamedTuple):
    id: str
    name: str
    path: str
    age: str
    finding: FindingRow | None


class WaitingRows(NamedTuple):
    shown: tuple[WaitingRow, ...]
    total: int

    @property
    def more(self) -> int:
        return self.total - len(self.shown)


class PolicyRow(NamedTuple):
    id: str
    name: str
    path: str
    state: str
    style: str
    counts: str
    message: str


def summary(fleet: Fleet) -> Summary:
    total = fleet.total
    counts = states(fleet)
    tiles = [
        Tile("GPUs in use", f"{total.gpus_in_use:,}", f"of {total.gpus:,}"),
        Tile("Promised", f"{total.ratio:,.1f}", f"GPUs, {percent(total.ratio / total.gpus if total.gpus else 0.0)}"),
        Tile("Memory promised", _memory(total.memory_promised), f"of {_memory(total.memory)}"),
        Tile("Claims", f"{total.claims:,}", f"{total.hidden:,} of other namespaces" if total.hidden else ""),
        Tile("Waiting", f"{len(fleet.waiting):,}", "pod" if len(fleet.waiting) == 1 else "pods"),
    ]
    if total.utilization is not None:
        tiles.insert(3, Tile("Busy", percent(total.utilization), "on average"))
    return Summary(
        tiles=tuple(tiles),
        bar=tuple(_bar(counts, max(total.gpus, 1))),
        states=tuple(StateCount(style, title, counts.get(style, 0)) for style, title in MODES.items()),
    )


def _bar(counts: Any, total: int) -> Sequence[Segment]:
    found: list[Segment] = []
    start = 0.0
    for style, title in MODES.items():
        width = 100.0 * counts.get(style, 0) / total
        if width and style != IDLE:
            found.append(Segment(round(start, 3), round(width, 3), style, f"{title}: {counts[style]}"))
            start += width
    return found


def _memory(mebibytes: int) -> str:
    return f"{mebibytes / 1024**2:,.1f} TiB" if mebibytes >= 10 * 1024**2 else f"{gib(mebibytes)} GiB"


def waiting_rows(fleet: Fleet) -> WaitingRows:
    return WaitingRows(tuple(_waiting(one, fleet.taken_at) for one in fleet.waiting[:_SHOWN]), len(fleet.waiting))


def _waiting(one: Waiting, now: str) -> WaitingRow:
    return WaitingRow(
        id=f"pod-{one.namespace}-{one.pod}",
        name=f"{one.namespace}/{one.pod}",
        path=f"pod/{one.namespace}/{one.pod}",
        age=f"for {held}" if (held := age(one.since, now)) else "",
        finding=finding_row(one.finding) if one.finding else None,
    )


def finding_row(one: Finding) -> FindingRow:
    return FindingRow(one.entry.severity.value.lower(), one.code, one.entry.title, one.sentence, one.remedy)


def policy_rows(policies: Sequence[SharingPolicy] | None) -> Sequence[PolicyRow] | None:
    return None if policies is None else [_policy(one) for one in policies]


def _policy(one: SharingPolicy) -> PolicyRow:
    name, status = one.metadata.name, one.status
    state, style, message = policy_state(one)
    counts = []
    if status.nodes:
        counts.append(f"{status.nodes.ready} of {counted(status.nodes.selected, 'node')}")
    if status.gpus:
        counts.append(counted(status.gpus.won, "GPU"))
    if status.clients:
        counts.append(f"{status.clients.current} of {status.clients.max} clients")
    return PolicyRow(f"policy-{name}", name, f"policy/{name}", state, style, ", ".join(counts), message)


def policy_state(one: SharingPolicy) -> tuple[str, str, str]:
    """The condition that people should look at first: reason, style and message."""
    conditions = {each.type: each for each in one.status.conditions}
    accepted, ready = conditions.get(ConditionType.ACCEPTED), conditions.get(ConditionType.READY)
    if accepted is None or ready is None:
        return "no status yet", "waits", ""
    if accepted.status is not ConditionStatus.TRUE:
        return accepted.reason, "bad", accepted.message
    if one.spec.rollout.paused or one.spec.rollout.mode is RolloutMode.PLAN:
        return ready.reason, "waits", ready.message
    degraded = conditions.get(ConditionType.DEGRADED)
    if degraded and degraded.status is ConditionStatus.TRUE:
        return degraded.reason, "bad", degraded.message
    if ready.status is not ConditionStatus.TRUE:
        progressing = conditions.get(ConditionType.PROGRESSING)
        is_moving = progressing is not None and progressing.status is ConditionStatus.TRUE
        return (progressing.reason if is_moving and progressing else ready.reason), "waits", ready.message
    return "Ready", "good", ""
