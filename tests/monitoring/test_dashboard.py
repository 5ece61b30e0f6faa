"""The dashboard, the recording rules and the page's queries: of metrics that there are, and as Grafana reads them."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import promql_parser
import pytest

from monitoring.expressions import (
    DASHBOARD,
    PAGE,
    PANELS,
    QUERIES,
    RECORDS,
    VARIABLES,
    panels,
    rendered,
)
from monitoring.known_metrics import (
    OF_OTHERS,
    OF_THE_TARGET,
    known_metrics,
    nodes,
    recorded_metrics,
    selectors,
)

WIDTH: Final = 24
KNOWN: Final = known_metrics() | recorded_metrics() | OF_OTHERS
MADE_ON_THE_WAY: Final = {"gpu_uuid", "claim", "le", "cluster", "exported_namespace"}


def labels_named(expression: str) -> Iterator[str]:
    for node in nodes(expression):
        modifier = getattr(node, "modifier", None)
        if isinstance(node, promql_parser.AggregateExpr) and modifier:
            yield from modifier.labels
        if isinstance(node, promql_parser.BinaryExpr) and modifier and modifier.matching:
            yield from modifier.matching.labels


@pytest.mark.parametrize(
    "expression",
    [pytest.param(expression, id=name) for every in (PANELS, QUERIES, RECORDS) for name, expression in every.items()],
)
def test_expressions_speak_of_metrics_and_labels_that_there_are(expression: str) -> None:
    asked = list(selectors(rendered(expression)))
    assert asked
    known = set(MADE_ON_THE_WAY)
    for selector in asked:
        assert selector.name in KNOWN
        own = KNOWN[selector.name] | OF_THE_TARGET | {"cluster"}
        assert {matcher.name for matcher in selector.matchers.matchers} <= own
        known |= own
    assert set(labels_named(rendered(expression))) <= known


@pytest.mark.parametrize("name", PANELS)
def test_panels_ask_for_the_cluster_that_was_chosen(name: str) -> None:
    for selector in selectors(rendered(PANELS[name], cluster="east")):
        assert [(one.name, one.value) for one in selector.matchers.matchers if one.name == "cluster"] == [
            ("cluster", "east")
        ]


def test_variables() -> None:
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == [
        "datasource", "cluster", "node", "policy", "namespace",
    ]  # fmt: skip
    for name, query in VARIABLES.items():
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert found
        (selector,) = selectors(rendered(found[1]))
        assert found[2] == name
        assert name in KNOWN[selector.name or ""] | OF_THE_TARGET | {"cluster"}
    used = set(re.findall(r"\$(\w+)", " ".join(PANELS.values()))) - {"__rate_interval", "__range"}
    assert used == set(VARIABLES)


def test_rows() -> None:
    titles = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert titles == ["Fleet", "GPUs", "Namespaces", "Policies", "Agents and operator"]


def test_panels_explain_themselves_and_take_the_data_source_that_was_chosen() -> None:
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    titles = [panel["title"] for panel in panels()]
    assert len(set(titles)) == len(titles)
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(ids)


def test_panels_fill_their_lines_and_do_not_cover_each_other() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for before, after in pairwise(places):
        if after["y"] == before["y"]:
            assert after["x"] == before["x"] + before["w"]
            assert after["h"] == before["h"]
        else:
            assert (after["x"], after["y"]) == (0, before["y"] + before["h"])
            assert before["x"] + before["w"] == WIDTH
    assert places[-1]["x"] + places[-1]["w"] == WIDTH


def test_parts_turn_orange_at_75_percent_and_red_at_90() -> None:
    found = [panel for panel in panels() if panel["type"] in {"gauge", "bargauge"} and _is_part(panel)]
    assert found
    for panel in found:
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert [(step["color"], step["value"]) for step in steps] == [("green", None), ("orange", 0.75), ("red", 0.9)]


def _is_part(panel: Any) -> bool:
    return bool(panel["fieldConfig"]["defaults"]["unit"] == "percentunit")


def test_recording_rules_are_on_the_page() -> None:
    assert set(re.findall(r"^\| `(\w+:\w+:\w+)` \|", PAGE, re.MULTILINE)) == set(RECORDS)
