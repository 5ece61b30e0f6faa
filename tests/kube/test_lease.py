"""Who leads, as a Lease says it: whole records in, whole records out."""

from typing import Any

import pytest

from gpusharing.api.coordination import Lease, LeaseSpec
from gpusharing.api.meta import ObjectMeta
from gpusharing.kube.lease import ObservedLease, Step, claimed, next_step, observe, released

ME, OTHER = "me", "other"
LONG_AGO, NOW = "2026-11-19T08:00:00.000000Z", "2026-11-19T12:00:00.000000Z"


def lease(
    holder: str | None = OTHER,
    *,
    duration: int | None = 15,
    renewed: str = LONG_AGO,
    transitions: int | None = 3,
    version: str = "7",
) -> Lease:
    return Lease(
        metadata=ObjectMeta(name="l", resource_version=version),
        spec=LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=duration,
            acquire_time=LONG_AGO,
            renew_time=renewed,
            lease_transitions=transitions,
        ),
    )


@pytest.mark.parametrize(
    ("found", "unchanged_for", "expected"),
    [
        pytest.param(None, 0.0, Step.TAKE, id="there is none"),
        pytest.param(lease(None), 0.0, Step.TAKE, id="nobody ever held it"),
        pytest.param(lease(""), 0.0, Step.TAKE, id="released"),
        pytest.param(lease(ME), 0.0, Step.KEEP, id="ours"),
        # Whether we may still trust it is a question of our own clock, and of what we asked for.
        pytest.param(lease(ME), 100.0, Step.KEEP, id="ours, for long"),
        pytest.param(lease(), 0.0, Step.WAIT, id="another's, and its clock is behind by hours"),
        pytest.param(lease(), 14.9, Step.WAIT, id="another's, which may renew it yet"),
        pytest.param(lease(), 15.0, Step.TAKE, id="another's, which has gone"),
        pytest.param(lease(duration=60), 59.0, Step.WAIT, id="another's, which promised something else"),
        pytest.param(lease(duration=5), 5.0, Step.TAKE, id="another's, which promised less"),
        pytest.param(lease(duration=None), 29.0, Step.WAIT, id="another's, without a promise"),
        pytest.param(lease(duration=None), 30.0, Step.TAKE, id="another's, without a promise, for long"),
    ],
)
def test_next_step(found: Lease | None, unchanged_for: float, expected: Step) -> None:
    observed = ObservedLease(lease=found, since=1000.0)
    assert next_step(observed, me=ME, duration=30, now=1000.0 + unchanged_for) is expected


@pytest.mark.parametrize(
    ("before", "after", "since"),
    [
        pytest.param(lease(), lease(), 10.0, id="the same"),
        pytest.param(lease(), lease(version="8"), 10.0, id="somebody labelled it"),
        pytest.param(lease(), lease(renewed=NOW), 20.0, id="renewed"),
        pytest.param(lease(), lease(""), 20.0, id="released"),
        pytest.param(lease(), None, 20.0, id="deleted"),
        pytest.param(None, lease(), 20.0, id="made"),
        pytest.param(None, None, 10.0, id="still none"),
    ],
)
def test_only_a_new_record_is_a_sign_of_life(before: Lease | None, after: Lease | None, since: float) -> None:
    assert observe(ObservedLease(lease=before, since=10.0), after, now=20.0) == ObservedLease(lease=after, since=since)


def record(**changes: Any) -> dict[str, Any]:
    whole = {
        "holderIdentity": ME,
        "leaseDurationSeconds": 20,
        "acquireTime": NOW,
        "renewTime": NOW,
        "leaseTransitions": 4,
    }
    return whole | changes


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(None, record(leaseTransitions=0), id="the first"),
        pytest.param(lease(), record(), id="taken from another"),
        pytest.param(lease(""), record(), id="taken after a release"),
        pytest.param(lease("", transitions=None), record(leaseTransitions=1), id="nobody counted"),
        pytest.param(lease(ME), record(acquireTime=LONG_AGO, leaseTransitions=3), id="kept"),
    ],
)
def test_what_is_claimed(found: Lease | None, expected: dict[str, Any]) -> None:
    observed = ObservedLease(lease=found, since=0.0)
    assert claimed(observed, me=ME, duration=20, moment=NOW) == expected


def test_what_is_released() -> None:
    assert released(moment=NOW) == {"holderIdentity": "", "renewTime": NOW}
