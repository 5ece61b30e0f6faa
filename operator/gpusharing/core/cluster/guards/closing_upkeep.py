"""Writes into the closing guard which devices are being withdrawn, and takes out what nobody can be waiting for."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pydantic

from gpusharing.api.core import ValidatingAdmissionPolicy
from gpusharing.core.cluster.guards import literals
from gpusharing.core.cluster.guards.closing import CLOSED, CLOSING
from gpusharing.core.cluster.guards.form import REVISION
from gpusharing.core.cluster.guards.installation import binds, is_as_installed
from gpusharing.core.cluster.guards.upkeep import MOST_TOGETHER, Bindings, Guards, texts
from gpusharing.core.intents import Patch, Stage, Target
from gpusharing.core.state.fence import TO_ALL, Closed, Closing, Fence, PoolReport
from gpusharing.core.timestamps import moment, seconds

LATEST_SLICES: Final = 60.0
"""Seconds by which the scheduler hears of slices late, and clocks differ."""

MOST_OF_ONE_POOL: Final = 8_192
"""Characters: an agent may report what it wants, and is not to use up the room of others."""

_NOTHING: Final = PoolReport(frozenset(), frozenset(), frozenset())
_RECORDS: Final = pydantic.TypeAdapter(list[list[str]])


class Written(NamedTuple):
    """What stands in the guard."""

    revision: int
    """0: nobody has written it yet."""
    fence: Fence


class FenceDecision(NamedTuple):
    intents: tuple[Patch, ...] = ()
    fence: Fence = MappingProxyType({})
    """As it is to be."""
    until: float | None = None
    """The moment, in seconds since 1970, at which something is to be taken out; None if nothing is."""


def holds(guards: Guards, bindings: Bindings) -> bool:
    """Whether the guard is installed as it should be. What it refuses is seen by dry runs alone."""
    guard, binding = guards.get(CLOSING), bindings.get(CLOSING)
    return guard is not None and binding is not None and is_as_installed(guard) and binds(binding)


def read(guard: ValidatingAdmissionPolicy) -> Written:
    found = texts(guard)
    revision = str(found.get(REVISION, "")).strip("'")
    fence = {pool: _records(literal) for pool, literal in literals.read(found.get(CLOSED, literals.EMPTY)).items()}
    return Written(int(revision) if revision.isdecimal() else 0, {pool: kept for pool, kept in fence.items() if kept})


def update_fence(
    closing: Closing, guards: Guards, bindings: Bindings, last: Fence | None = None, *, idle_wait: float, now: str
) -> FenceDecision:
    """`closing`: of all nodes. `last`: as it was decided last; what somebody has taken out since is put in again. Where
    the guard is missing or was changed, nothing is written."""
    if not holds(guards, bindings):
        return FenceDecision(fence=last or {})
    guard = guards[CLOSING]
    before = _with_lost(read(guard).fence, last or {})
    # What is there stays: it is what approvals rest on.
    kept = {pool: _kept(before[pool], closing.get(pool, _NOTHING), idle_wait, now) for pool in before}
    fence = _with_new(kept, closing, now)
    if _size(fence) > MOST_TOGETHER:
        fence = {pool: _merged(records) for pool, records in fence.items()}
    ends = [seconds(one.since) + idle_wait for records in fence.values() for one in records if not one.is_to_all]
    return FenceDecision(_writes(guard, literals.render(_entries(fence))), fence, min(ends, default=None))


def _with_lost(there: Fence, last: Fence) -> dict[str, list[Closed]]:
    """What keeps off claims of before. What is to be closed to all is closed anew, and has to be seen anew."""
    fence = {pool: list(records) for pool, records in there.items()}
    for pool, records in last.items():
        lost = [one for one in records if not one.is_to_all and one not in there.get(pool, ())]
        if lost:
            fence[pool] = [*fence.get(pool, ()), *lost]
    return fence


def _kept(before: Iterable[Closed], report: PoolReport, idle_wait: float, now: str) -> list[Closed]:
    """Records of a pool: those that are still needed, and what is over, which still keeps off claims of before."""
    records: list[Closed] = []
    for one in before:
        if one.is_to_all:
            stays = tuple(item for item in one.items if report.keeps_closed(item))
            over = tuple(item for item in one.items if item not in stays)
            records += [Closed(one.since, TO_ALL, stays)] if stays else []
            records += [Closed(now, moment(seconds(now) + LATEST_SLICES), over)] if over else []
        elif seconds(one.since) + idle_wait > seconds(now):
            records.append(one)
    return records


def _with_new(kept: Mapping[str, list[Closed]], closing: Closing, now: str) -> dict[str, list[Closed]]:
    """As many as there is room for. The others wait until nothing can be on its way to them."""
    fence = {pool: records for pool, records in kept.items() if records}
    size = sum(_room(pool, one) for pool, records in fence.items() for one in records)
    for pool in sorted(closing):
        known = {item for one in fence.get(pool, ()) if one.is_to_all for item in one.items}
        if new := tuple(sorted(closing[pool].to_close - known)):
            record = Closed(now, TO_ALL, new)
            if _size({pool: [record]}) <= MOST_OF_ONE_POOL and size + _room(pool, record) <= MOST_TOGETHER:
                size += _room(pool, record)
                fence[pool] = [*fence.get(pool, ()), record]
    return fence


def _room(pool: str, record: Closed) -> int:
    """What ends at several times takes more records than what began at once."""
    return _size({pool: [record]}) * (2 if record.is_to_all else 1)


def _merged(records: Sequence[Closed]) -> list[Closed]:
    """With one record for all that is over: it stays as long as the last of them."""
    over = [one for one in records if not one.is_to_all]
    items = tuple(sorted({item for one in over for item in one.items}))
    last = [Closed(max(one.since for one in over), max(one.before for one in over), items)] if over else []
    return [*(one for one in records if one.is_to_all), *last]


def _size(fence: Fence) -> int:
    return literals.size(_entries(fence))


def _entries(fence: Fence) -> dict[str, str]:
    return {pool: _literal(records) for pool, records in fence.items()}


def _writes(guard: ValidatingAdmissionPolicy, literal: str) -> tuple[Patch, ...]:
    known = texts(guard)
    if known[CLOSED] == literal:
        return ()
    # No other write of this guard has this version, and later ones have higher ones.
    rendered = known | {CLOSED: literal, REVISION: f"'{guard.metadata.resource_version}'"}
    variables = [{"name": name, "expression": text} for name, text in rendered.items()]
    return (
        Patch(
            target=Target.ADMISSION_POLICY,
            stage=Stage.GUARDS,
            before=guard.metadata,
            body={"spec": {"variables": variables}},
        ),
    )


def _literal(records: Iterable[Closed]) -> str:
    return literals.of([[one.since, one.before, *one.items] for one in records])


def _records(literal: str) -> tuple[Closed, ...]:
    """Of an entry that somebody else has written, nothing."""
    try:
        found: list[Any] = _RECORDS.validate_json(literal)
        records = [Closed(since, before, tuple(items)) for since, before, *items in found]
        # They are calculated with.
        return tuple(one for one in records if seconds(one.since) and seconds(one.before))
    except ValueError:
        return ()
