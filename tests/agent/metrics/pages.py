"""What an agent tells Prometheus, read for tests."""

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gpusharing.agent.metrics.exposition import Family, Metric, exposition


def samples(families: Iterable[Family]) -> dict[str, float]:
    return parsed(exposition(families).decode())


def samples_of(families: Iterable[Family], metric: Metric) -> list[Sample]:
    """Of one metric."""
    parsed = text_string_to_metric_families(exposition(families).decode())
    return [sample for family in parsed for sample in family.samples if sample.name == metric.name]


def parsed(text: str) -> dict[str, float]:
    """By name and labels, written as in queries."""
    return {
        f"{sample.name}{_written(sample.labels)}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _written(labels: dict[str, str]) -> str:
    inside = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""
