"""All PromQL that we give people: of the dashboard, of rules and alerts, and of docs/metrics.md."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
MONITORING: Final = ROOT / "manifests" / "components" / "monitoring"
PAGE: Final = (ROOT / "docs" / "metrics.md").read_text()
RULES: Final = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())["spec"]
DASHBOARD: Final = json.loads(
    yaml.safe_load((MONITORING / "dashboard.yaml").read_text())["data"]["gpusharing.json"],
)

ALERTS: Final[Mapping[str, Any]] = {
    rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule
}
RECORDS: Final[Mapping[str, str]] = {
    rule["record"]: rule["expr"] for group in RULES["groups"] for rule in group["rules"] if "record" in rule
}


def panels() -> Iterator[Any]:
    yield from (panel for panel in DASHBOARD["panels"] if panel["type"] != "row")


def _targets() -> Iterator[tuple[str, Any]]:
    for panel in panels():
        for target in panel["targets"]:
            legend = f": {target['legendFormat']}" if len(panel["targets"]) > 1 else ""
            yield f"{panel['title']}{legend}", target


def _of_page() -> Iterator[tuple[str, str]]:
    """By the comment in their first line."""
    for block in re.findall(r"^```promql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for query in block.strip().split("\n\n"):
            title, _, expression = query.partition("\n")
            assert title.startswith("# "), query
            yield title.removeprefix("# "), expression


PANELS: Final[Mapping[str, str]] = {name: target["expr"] for name, target in _targets()}
LEGENDS: Final[Mapping[str, list[str]]] = {
    name: re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]) for name, target in _targets()
}
"""The labels in them."""
QUERIES: Final[Mapping[str, str]] = dict(_of_page())
VARIABLES: Final[Mapping[str, str]] = {
    variable["name"]: variable["query"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query"
}


def rendered(expression: str, **chosen: str) -> str:
    """As Grafana does, with `chosen` values of variables. All of the others."""
    for name in VARIABLES:
        expression = expression.replace(f"${name}", chosen.get(name, ".*"))
    return expression.replace("$__rate_interval", "10m").replace("$__range", "1h")
