"""Our CEL agrees with kube-scheduler's on random selectors: always the same ones, and others each day."""

import datetime as dt

import pytest

from cel.fuzz import fuzz, report

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1_200)]

COUNT = 5_000
TODAY = int(dt.datetime.now(tz=dt.UTC).strftime("%Y%m%d"))


@pytest.mark.parametrize("seed", [pytest.param(7, id="always"), pytest.param(TODAY, id="today")])
def test_kubernetes_says_the_same(seed: int) -> None:
    findings = fuzz(seed, COUNT)
    assert findings.outcomes.total() > COUNT
    assert not findings.differences, f"seed {seed}: {report(findings)}"
    # Too few to hide anything.
    assert findings.over_our_limit + findings.unsettled < COUNT / 100
