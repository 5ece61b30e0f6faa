"""Who leads, as a Lease says it: without a clock, and without the network.

The clocks of two machines differ, so the times in a record are for people only. Whoever looks takes the time itself: a
leader has gone when its record has stayed the same for as long as it promised to renew it.
"""

import dataclasses
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from gpusharing.api.coordination import Lease, LeaseSpec


class Step(Enum):
    TAKE = auto()
    KEEP = auto()
    WAIT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A Lease as it was seen last, or that there is none."""

    lease: Lease | None
    since: float
    """When its record was first seen to be as it is, by the clock of who looks."""

    @property
    def holder(self) -> str:
        return self.lease.spec.holder_identity or "" if self.lease else ""


def seen(before: Sight | None, lease: Lease | None, *, now: float) -> Sight:
    # Whatever else changes on the object, such as a label, is no sign of life.
    if before is not None and _record(before.lease) == _record(lease):
        return dataclasses.replace(before, lease=lease)
    return Sight(lease=lease, since=now)


def next_step(sight: Sight, *, me: str, duration: int, now: float) -> Step:
    """`duration`: what counts where the record does not say for how long it holds."""
    if not sight.holder:
        return Step.TAKE
    if sight.holder == me:
        return Step.KEEP
    promised = _record(sight.lease).lease_duration_seconds or duration
    return Step.TAKE if now - sight.since >= promised else Step.WAIT


def claimed(sight: Sight, *, me: str, duration: int, moment: str) -> dict[str, Any]:
    """The record with which it is taken or kept."""
    before = _record(sight.lease)
    transitions = before.lease_transitions or 0
    if sight.holder == me:
        acquired = before.acquire_time
    else:
        acquired = moment
        transitions += 1 if sight.lease else 0
    return {
        "holderIdentity": me,
        "leaseDurationSeconds": duration,
        "acquireTime": acquired,
        "renewTime": moment,
        "leaseTransitions": transitions,
    }


def released(*, moment: str) -> dict[str, Any]:
    """What changes when it is given back, so that the next one need not wait."""
    return {"holderIdentity": "", "renewTime": moment}


def _record(lease: Lease | None) -> LeaseSpec:
    return lease.spec if lease else LeaseSpec()
