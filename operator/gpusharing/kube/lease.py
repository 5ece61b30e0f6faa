"""Which replica leads according to a Lease: without a clock, and without the network.

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
class ObservedLease:
    """A Lease as it was observed last, or that there is none."""

    lease: Lease | None
    since: float
    """When this record was first observed, by the clock of the observer."""

    @property
    def holder(self) -> str:
        return self.lease.spec.holder_identity or "" if self.lease else ""


def observe(before: ObservedLease | None, lease: Lease | None, *, now: float) -> ObservedLease:
    # A change of anything else, such as a label, is not a renewal.
    if before is not None and _record(before.lease) == _record(lease):
        return dataclasses.replace(before, lease=lease)
    return ObservedLease(lease=lease, since=now)


def next_step(observed: ObservedLease, *, me: str, duration: int, now: float) -> Step:
    """`duration`: for a record without a duration."""
    if not observed.holder:
        return Step.TAKE
    if observed.holder == me:
        return Step.KEEP
    promised = _record(observed.lease).lease_duration_seconds or duration
    return Step.TAKE if now - observed.since >= promised else Step.WAIT


def claimed(observed: ObservedLease, *, me: str, duration: int, moment: str) -> dict[str, Any]:
    """The record that takes or renews the Lease."""
    before = _record(observed.lease)
    transitions = before.lease_transitions or 0
    if observed.holder == me:
        acquired = before.acquire_time
    else:
        acquired = moment
        transitions += 1 if observed.lease else 0
    return {
        "holderIdentity": me,
        "leaseDurationSeconds": duration,
        "acquireTime": acquired,
        "renewTime": moment,
        "leaseTransitions": transitions,
    }


def released(*, moment: str) -> dict[str, Any]:
    """The change that releases the Lease, so that the next leader need not wait."""
    return {"holderIdentity": "", "renewTime": moment}


def _record(lease: Lease | None) -> LeaseSpec:
    return lease.spec if lease else LeaseSpec()
