"""Who is deaf says so: since when, of which kind, and why."""

import pytest
from structlog.testing import capture_logs

from gpusharing.kube import watches as module
from gpusharing.kube.kinds import NODES, RESOURCE_CLAIMS
from gpusharing.kube.watches import Watches


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "seconds_since_boot", clock)
    return clock


def test_a_kind_is_as_broken_as_the_worst_of_its_watches(clock: Clock) -> None:
    watches = Watches()
    one, other, claims = watches.add(NODES), watches.add(NODES), watches.add(RESOURCE_CLAIMS)
    assert watches.broken_for() == {"Node": 0, "ResourceClaim": 0}
    one.fails("403")
    clock.seconds += 10
    other.fails("403")
    clock.seconds += 5
    assert watches.broken_for() == {"Node": 15, "ResourceClaim": 0}
    assert watches.worst == one
    one.works()
    assert watches.broken_for() == {"Node": 5, "ResourceClaim": 0}
    other.works()
    claims.works()
    assert [watches.worst, watches.deaf] == [None, None]


def test_it_is_deaf_when_it_does_not_pass(clock: Clock) -> None:
    watches = Watches()
    claims = watches.add(RESOURCE_CLAIMS)
    claims.fails("refused")
    clock.seconds += 30
    assert not watches.deaf
    clock.seconds += 1
    assert watches.deaf == claims
    assert str(claims).startswith("ResourceClaim cannot be watched since 20")
    assert str(claims).endswith(": refused")
    claims.works()
    assert watches.deaf is None


def test_it_is_said_once_and_when_it_is_over(clock: Clock) -> None:
    watch = Watches().add(NODES)
    with capture_logs() as logs:
        watch.works()
        for error in ("refused", "refused", "forbidden"):
            watch.fails(error)
            clock.seconds += 1
        watch.works()
        watch.works()
        watch.fails("forbidden")
    said = [(entry["event"], entry["kind"], entry.get("error"), entry.get("broken_for")) for entry in logs]
    assert said == [
        ("watch broken", "Node", "refused", None),
        ("watch broken", "Node", "forbidden", None),
        ("watch works again", "Node", None, 3.0),
        ("watch broken", "Node", "forbidden", None),
    ]
    assert logs[0]["since"] == logs[1]["since"]
