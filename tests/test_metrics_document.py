"""docs/metrics.md names every metric of both programs, and no others."""

import re
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from gpusharing.agent.metrics import catalogue
from gpusharing.agent.metrics.claims import Reason
from gpusharing.agent.metrics.exposition import Metric
from gpusharing.agent.settling.drift import Drifted
from gpusharing.api.sharing.policy_status import LagReason
from gpusharing.controller.metrics import Metrics
from gpusharing.core.figures.pending_claims import DENIED, NOT_PLACED

DOCUMENT = (Path(__file__).parent.parent / "docs/metrics.md").read_text()

Row = tuple[str, str, tuple[str, ...], str]


def described(heading: str) -> list[Row]:
    section = DOCUMENT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \| (.+) \|$", section, re.MULTILINE)
    return [(name, kind, tuple(re.findall(r"`(\w+)`", labels)), meaning) for name, kind, labels, meaning in rows]


def test_the_agent() -> None:
    assert described("The agent") == [
        (metric.name, metric.kind, metric.labels, metric.meaning) for metric in catalogue.ALL
    ]


def test_the_operator() -> None:
    rows = [
        (
            f"{family.name}_total" if family.type == "counter" else family.name,
            family.type,
            tuple(getattr(collector, "_labelnames", None) or getattr(family, "_labelnames", None) or ()),
            family.documentation,
        )
        for collector in Metrics()._registry._collector_to_names
        for family in (collector.describe() if isinstance(collector, MetricWrapperBase) else collector.collect())
        # Those of Prometheus' client library are not ours to describe.
        if family.name.startswith("gpusharing_")
    ]
    assert sorted(described("The operator")) == sorted(rows)


@pytest.mark.parametrize("value", [*Reason, *Drifted, *LagReason, NOT_PLACED, DENIED])
def test_values_of_labels(value: str) -> None:
    assert f"`{value}`" in DOCUMENT


def test_names_and_labels() -> None:
    for metric in catalogue.ALL:
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.kind != "histogram" or metric.name.endswith("_seconds")
        # Of an object that may come again, the uid tells one from the other.
        is_of_claim = metric.name.startswith("gpusharing_claim_")
        assert ("claim" in metric.labels) == ("claim_uid" in metric.labels) == is_of_claim
    assert len({metric.name for metric in catalogue.ALL}) == len(catalogue.ALL)
    named = [value for value in vars(catalogue).values() if isinstance(value, Metric)]
    assert named == list(catalogue.ALL)
