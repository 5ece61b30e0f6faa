"""What can be scraped, and what an expression asks for."""

from collections.abc import Iterator
from typing import Any, Final

import promql_parser
from prometheus_client.metrics import MetricWrapperBase

from gpusharing.agent.metrics import catalogue
from gpusharing.controller.metrics import Metrics
from monitoring.expressions import RECORDS

OF_THE_TARGET: Final = {"job", "instance", "namespace", "pod", "container", "node"}
"""What Prometheus and the PodMonitor put beside a program's own labels."""

OF_OTHERS: Final[dict[str, set[str]]] = {
    "DCGM_FI_DEV_FB_USED": {"UUID", "GPU_I_ID"},
    "DCGM_FI_DEV_GPU_UTIL": {"UUID", "GPU_I_ID"},
    "kube_pod_resourceclaim_info": {"namespace", "pod", "resourceclaim_name"},
    "node_gpu_hourly_cost": {"node"},
}


def known_metrics() -> dict[str, set[str]]:
    """The labels of our own metrics, by names, those that a histogram consists of among them."""
    known = {name: set(metric.labels) for metric in catalogue.ALL for name in _series(metric.name, metric.kind)}
    for collector in Metrics()._registry._collector_to_names:
        for family in collector.describe() if isinstance(collector, MetricWrapperBase) else collector.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            known[name] = set(getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ()))
    return known | {"up": set()}


def _series(name: str, kind: str) -> Iterator[str]:
    yield from (f"{name}_{part}" for part in ("bucket", "sum", "count")) if kind == "histogram" else (name,)


def recorded_metrics() -> dict[str, set[str]]:
    """The labels by which rules sum up."""
    return {
        name: set(modifier.labels)
        for name, expression in RECORDS.items()
        for node in nodes(expression)
        if isinstance(node, promql_parser.AggregateExpr) and (modifier := node.modifier)
    }


def nodes(expression: str) -> list[Any]:
    found: list[Any] = []
    promql_parser.walk(promql_parser.parse(expression), found.append)
    return found


def selectors(expression: str) -> Iterator[promql_parser.VectorSelector]:
    for node in nodes(expression):
        if isinstance(node, promql_parser.MatrixSelector):
            yield node.vector_selector
        elif isinstance(node, promql_parser.VectorSelector):
            yield node
