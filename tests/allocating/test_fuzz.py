"""We allocate as kube-scheduler does in random clusters: always the same ones, and others each day."""

import datetime as dt
from unittest import mock

import pytest

from allocating.fuzz import MINORS, Findings, fuzz, live, report
from allocating.oracle_process import AllocatorOracle
from gpusharing.core.allocate import search

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CLUSTERS = 40
TODAY = int(dt.datetime.now(tz=dt.UTC).strftime("%Y%m%d"))


@pytest.mark.parametrize("seed", [pytest.param(7, id="always"), pytest.param(TODAY, id="today")])
def test_kubernetes_allocates_the_same(seed: int) -> None:
    findings = fuzz(seed, CLUSTERS)
    assert not findings.differences, f"seed {seed}: {report(findings)}"
    assert findings.given_up < CLUSTERS / 10
    # It is not all the same answer.
    assert all(findings.fitting[f"1.{minor}"] > CLUSTERS for minor in MINORS)
    assert min(findings.outcomes[kind] for kind in ("fits", "does not fit", "stops")) > CLUSTERS


def test_a_mistake_is_found_and_made_small() -> None:
    findings = Findings()
    with mock.patch.object(search, "tolerates", return_value=True):
        with AllocatorOracle(37) as oracle:
            number = 0
            while not findings.differences:
                live(oracle, 7, number, findings)
                number += 1
        (shrunk,) = [line for line in report(findings).splitlines() if line.startswith("{")]
    assert '"taints"' in shrunk
    assert len(shrunk) < 2_000
