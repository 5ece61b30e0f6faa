"""Policies, claims that wait and quotas as metrics. They are read when somebody asks for the page, from the last
decision."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gpusharing.core.figures.figures import Figures
from gpusharing.core.figures.rows import Row


class FiguresCollector(Collector):
    def __init__(self) -> None:
        self.read: Callable[[], Figures | None] = lambda: None
        self.evictions: Final[Counter[str]] = Counter()
        """By policy."""

    def collect(self) -> Iterable[Metric]:
        figures = self.read()
        return [*self._of_policies(figures), *_of_namespaces(figures)]

    def _of_policies(self, figures: Figures | None) -> Iterable[Metric]:
        conditions = _gauge(
            "policy_condition",
            "1 for each condition of a policy, with its present status and reason",
            "policy",
            "type",
            "status",
            "reason",
        )
        gpus = _gauge("policy_gpus", "GPUs that a policy selects: won, or lost to another policy", "policy", "state")
        clients = _gauge(
            "policy_clients", "Devices on GPUs of a policy that are allocated to claims, by mode", "policy", "sharing"
        )
        most = _gauge(
            "policy_max_clients", "The most claims that can use the GPUs of a policy at the same time", "policy"
        )
        nodes = _gauge(
            "rollout_nodes",
            "Nodes with GPUs of a policy: on which it is in force, and by the reason why not yet",
            "policy",
            "state",
        )
        evictions = CounterMetricFamily(
            "gpusharing_evictions",
            "Claims whose pods are evicted for a policy, counted when the eviction begins; without those that "
            "conflict with another claim",
            labels=["policy"],
        )
        for name, policy in figures.policies.items() if figures else ():
            for condition in policy.conditions:
                conditions.add_metric([name, *condition], 1)
            gpus.add_metric([name, "won"], policy.won)
            gpus.add_metric([name, "lost"], policy.lost)
            for sharing, count in policy.clients.items():
                clients.add_metric([name, sharing], count)
            most.add_metric([name], policy.max_clients)
            for state, count in policy.nodes.items():
                nodes.add_metric([name, state], count)
            evictions.add_metric([name], self.evictions[name])
        return conditions, gpus, clients, most, nodes, evictions


def _of_namespaces(figures: Figures | None) -> Iterable[Metric]:
    pending = _gauge(
        "pending_claims",
        "Claims without devices, or that are denied theirs, by the reason",
        "policy",
        "namespace",
        "reason",
    )
    used = _gauge(
        "quota_used",
        "Devices of a policy that count towards the quota of a namespace",
        "policy",
        "namespace",
        "sharing",
    )
    hard = _gauge(
        "quota_hard", "Devices of a policy that the quota of a namespace permits", "policy", "namespace", "sharing"
    )
    if figures is not None:
        _add(pending, figures.pending_claims)
        _add(used, figures.quota_use.used)
        _add(hard, figures.quota_use.hard)
    return pending, used, hard


def _add(family: GaugeMetricFamily, rows: Mapping[Row, int]) -> None:
    for row, number in rows.items():
        family.add_metric(row, number)


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"gpusharing_{name}", meaning, labels=labels)
