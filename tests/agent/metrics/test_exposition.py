"""The text that Prometheus gets, read by the parser of its own client library."""

import math
from bisect import bisect_left
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gpusharing.agent.metrics.exposition import Counter, Family, Histogram, Metric, Reading, Values, exposition

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

BOUNDS = (0.01, 0.5, 1)


def read(*families: Family) -> tuple[dict[str, tuple[str, str]], Samples]:
    """Of each family its kind and meaning, and all samples by name and labels."""
    found = list(text_string_to_metric_families(exposition(families).decode()))
    samples = [sample for family in found for sample in family.samples]
    by_labels: Samples = {(one.name, tuple(sorted(one.labels.items()))): one.value for one in samples}
    assert len(by_labels) == len(samples)
    return {family.name: (family.type, family.documentation) for family in found}, by_labels


# Not what UTF-8 cannot say, and not what the parser takes for the end of a line (Prometheus does not).
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))


pairs: st.SearchStrategy[tuple[str, ...]] = st.tuples(texts, texts)


@given(
    meaning=texts.map(str.strip),
    values=st.dictionaries(pairs, st.integers(0, 2**62) | st.floats(allow_nan=False)),
)
def test_whatever_labels_and_meaning_are(meaning: str, values: Values) -> None:
    metric = Metric("some_bytes", "gauge", meaning, ("one", "two"))
    families, samples = read(Reading(metric, lambda: values))
    assert families["some_bytes"][0] == "gauge"
    assert {(labels[0][1], labels[1][1]): value for (_, labels), value in samples.items()} == values


@pytest.mark.parametrize("meaning", ["plain", 'with "quotes"', "a \\ and\na second line", "\\n is no line"])
def test_meaning(meaning: str) -> None:
    families, _ = read(Reading(Metric("some", "gauge", meaning), dict))
    assert families == {"some": ("gauge", meaning)}


def test_a_counter_is_there_before_it_counts() -> None:
    counter = Counter(Metric("some_total", "counter", "Some", ("why",)), ("a",), ("b",))
    for label in ("b", "c", "b"):
        counter.increase(label)
    families, samples = read(counter)
    assert families == {"some": ("counter", "Some")}
    assert {labels[0][1]: value for (_, labels), value in samples.items()} == {"a": 0, "b": 2, "c": 1}


@given(st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from(BOUNDS) | st.floats(0, 5)), max_size=30))
def test_a_histogram_counts_what_is_at_most_its_bounds(observed: list[tuple[str, float]]) -> None:
    histogram = Histogram(Metric("some_seconds", "histogram", "Some", ("kind",)), BOUNDS)
    for kind, value in observed:
        histogram.observe(value, kind)
    families, samples = read(histogram)
    assert families == {"some_seconds": ("histogram", "Some")}
    expected: dict[Any, Any] = {}
    for kind in {kind for kind, _ in observed}:
        values = sorted(value for one, value in observed if one == kind)
        label = ("kind", kind)
        for text, bound in (("0.01", 0.01), ("0.5", 0.5), ("1", 1), ("+Inf", math.inf)):
            expected["some_seconds_bucket", (label, ("le", text))] = bisect_left(
                values, math.nextafter(bound, math.inf)
            )
        expected["some_seconds_count", (label,)] = len(values)
        expected["some_seconds_sum", (label,)] = pytest.approx(sum(values))
    assert samples == expected


def test_labels_have_to_be_complete() -> None:
    reading = Reading(Metric("some", "gauge", "Some", ("one", "two")), lambda: {("1",): 1})
    with pytest.raises(ValueError, match="zip"):
        exposition([reading])
