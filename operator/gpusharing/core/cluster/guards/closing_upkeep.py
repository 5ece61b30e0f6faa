"""Writes into the closing guard which devices are being withdrawn, and takes them out when no decision can be on its
way to them any more."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pydantic

from gpusharing.api.core import ValidatingAdmissionPolicy
from gpusharing.core.cluster.guards import literals
from gpusharing.core.cluster.guards.closing import CLOSED, CLOSING
from gpusharing.core.cluster.guards.form import new_revision, revision_of
from gpusharing.core.cluster.guards.installation import binds, is_as_installed
from gpusharing.core.cluster.guards.upkeep import MOST_TOGETHER, Bindings, Guards, texts
from gpusharing.core.intents import Patch, Stage, Target
from gpusharing.core.state.fence import Closed, Closing, Fence, Phase, PoolReport
from gpusharing.core.timestamps import seconds

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
    version: str = ""
    """Of the guard that it was decided on."""


_NO_DECISION: Final = FenceDecision()


def holds(guards: Guards, bindings: Bindings) -> bool:
    """Whether the guard is installed as it should be. What it refuses is seen by dry runs alone."""
    guard, binding = guards.get(CLOSING), bindings.get(CLOSING)
    return guard is not None and binding is not None and is_as_installed(guard) and binds(binding)


def read(guard: ValidatingAdmissionPolicy) -> Written:
    found = texts(guard)
    fence = {pool: _records(literal) for pool, literal in literals.read(found.get(CLOSED, literals.EMPTY)).items()}
    return Written(revision_of(found), {pool: kept for pool, kept in fence.items() if kept})


def update_fence(
    closing: Closing,
    guards: Guards,
    bindings: Bindings,
    last: FenceDecision = _NO_DECISION,
    *,
    idle_wait: float,
    now: str,
) -> FenceDecision:
    """`closing`: of all nodes. What somebody has taken out since `last` is put in again. Where the guard is missing or
    was changed, nothing is written."""
    if not holds(guards, bindings):
        return FenceDecision(fence=last.fence)
    guard = guards[CLOSING]
    version = guard.metadata.resource_version
    # What was decided on the same version is on its way.
    before = last.fence if version == last.version else _with_lost(read(guard).fence, last.fence, now)
    kept = {pool: _kept(before[pool], closing.get(pool, _NOTHING), idle_wait, now) for pool in before}
    fence = _with_new(kept, closing, now)
    if _size(fence) > MOST_TOGETHER:
        fence = {pool: _merged(records) for pool, records in fence.items()}
    ends = [seconds(one.over_since) + idle_wait for records in fence.values() for one in records if one.over_since]
    return FenceDecision(_writes(guard, literals.render(_entries(fence))), fence, min(ends, default=None), version)


def _with_lost(there: Fence, last: Fence, now: str) -> Fence:
    """What was lost has to be seen anew, so it is closed anew."""
    fence = dict(there)
    for pool, records in last.items():
        found = {item for one in there.get(pool, ()) for item in one.items}
        lost = [Closed(now, tuple(item for item in one.items if item not in found), one.over_since) for one in records]
        fence[pool] = [*fence.get(pool, ()), *(one for one in lost if one.items)]
    return fence


def _kept(before: Iterable[Closed], report: PoolReport, idle_wait: float, now: str) -> list[Closed]:
    """What approvals rest on stays, and what is over for as long as a decision of before may be on its way."""
    records: list[Closed] = []
    for one in before:
        phases = {item: report.phase(item) for item in one.items}
        closing = tuple(item for item, phase in phases.items() if phase is Phase.CLOSING)
        over = tuple(item for item, phase in phases.items() if phase is Phase.OVER)
        records += [Closed(one.since, closing)] if closing else []
        over_since = min(one.over_since or now, now)
        if over and seconds(over_since) + idle_wait > seconds(now):
            records.append(Closed(one.since, over, over_since))
    return records


def _with_new(kept: Mapping[str, list[Closed]], closing: Closing, now: str) -> dict[str, list[Closed]]:
    """As many as there is room for. The others wait until nothing can be on its way to them."""
    fence = {pool: records for pool, records in kept.items() if records}
    size = sum(_room(pool, one) for pool, records in fence.items() for one in records)
    for pool in sorted(closing):
        known = {item for one in fence.get(pool, ()) for item in one.items}
        if new := tuple(sorted(closing[pool].to_close - known)):
            record = Closed(now, new)
            if _size({pool: [record]}) <= MOST_OF_ONE_POOL and size + _room(pool, record) <= MOST_TOGETHER:
                size += _room(pool, record)
                fence[pool] = [*fence.get(pool, ()), record]
    return fence


def _room(pool: str, record: Closed) -> int:
    """What ends at several times takes more records than what began at once."""
    return _size({pool: [record]}) * (1 if record.over_since else 2)


def _merged(records: Sequence[Closed]) -> list[Closed]:
    """With one record for all that is over: it stays as long as the last of them."""
    over = [one for one in records if one.over_since]
    items = tuple(sorted({item for one in over for item in one.items}))
    ends = [one.over_since for one in over if one.over_since]
    last = [Closed(max(one.since for one in over), items, max(ends))] if over else []
    return [*(one for one in records if not one.over_since), *last]


def _size(fence: Fence) -> int:
    return literals.size(_entries(fence))


def _entries(fence: Fence) -> dict[str, str]:
    return {pool: _literal(records) for pool, records in fence.items()}


def _writes(guard: ValidatingAdmissionPolicy, literal: str) -> tuple[Patch, ...]:
    known = texts(guard)
    if known[CLOSED] == literal:
        return ()
    rendered = known | {CLOSED: literal} | new_revision(guard.metadata.resource_version)
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
    return literals.of([[one.since, one.over_since or "", *one.items] for one in records])


def _records(literal: str) -> tuple[Closed, ...]:
    """Of an entry that somebody else has written, nothing."""
    try:
        found: list[Any] = _RECORDS.validate_json(literal)
        records = [Closed(since, tuple(items), over_since or None) for since, over_since, *items in found]
        # They are calculated with.
        return tuple(one for one in records if seconds(one.since) and (not one.over_since or seconds(one.over_since)))
    except ValueError:
        return ()
