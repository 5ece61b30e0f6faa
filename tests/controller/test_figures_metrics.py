"""How figures look on the page, whatever names they have."""

from prometheus_client.parser import text_string_to_metric_families

from gpusharing.api.names import Sharing
from gpusharing.controller.metrics import Metrics
from gpusharing.core.figures.figures import Figures
from gpusharing.core.figures.policies import ConditionNow, PolicyFigures
from gpusharing.core.figures.quota_use import QuotaUse
from gpusharing.core.figures.rows import Row

POLICY = PolicyFigures(
    conditions=[ConditionNow("Ready", "False", "WaitingForNodes")],
    won=8,
    lost=1,
    clients={Sharing.MPS: 5},
    max_clients=32,
    nodes={"Ready": 1, "InUse": 2},
)
SHARES = Row("p", "team", Sharing.TIME_SLICING)
FIGURES = Figures(
    policies={"p": POLICY},
    pending_claims={Row("", "team", "NotPlaced"): 3, Row("p", 'a "b"\\\n{}', "Denied"): 1},
    quota_use=QuotaUse({SHARES: 4}, {SHARES: 16}),
)

Series = tuple[str, tuple[str, ...], float]


def shown(metrics: Metrics) -> set[Series]:
    """The labels in the order of their names."""
    names = ("policy_", "rollout_", "evictions_", "pending_", "quota_")
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
        if sample.name.removeprefix("gpusharing_").startswith(names)
    }


def test_each_number_has_its_name_and_labels() -> None:
    metrics = Metrics()
    metrics.watch_figures(lambda: FIGURES)
    metrics.evicting({"p": 2, "gone": 1})
    metrics.evicting({"p": 1})
    assert shown(metrics) == {
        ("gpusharing_policy_condition", ("p", "WaitingForNodes", "False", "Ready"), 1),
        ("gpusharing_policy_gpus", ("p", "won"), 8),
        ("gpusharing_policy_gpus", ("p", "lost"), 1),
        ("gpusharing_policy_clients", ("p", "MPS"), 5),
        ("gpusharing_policy_max_clients", ("p",), 32),
        ("gpusharing_rollout_nodes", ("p", "Ready"), 1),
        ("gpusharing_rollout_nodes", ("p", "InUse"), 2),
        ("gpusharing_evictions_total", ("p",), 3),
        ("gpusharing_pending_claims", ("team", "", "NotPlaced"), 3),
        ("gpusharing_pending_claims", ('a "b"\\\n{}', "p", "Denied"), 1),
        ("gpusharing_quota_used", ("team", "p", "TimeSlicing"), 4),
        ("gpusharing_quota_hard", ("team", "p", "TimeSlicing"), 16),
    }


def test_one_that_stands_by_shows_none() -> None:
    metrics = Metrics()
    assert shown(metrics) == set()
    leads = True
    metrics.watch_figures(lambda: FIGURES if leads else None)
    assert shown(metrics)
    leads = False
    assert shown(metrics) == set()
