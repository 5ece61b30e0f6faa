"""The alerts of components/monitoring speak of what the programs tell, and fire when they should, and only then."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import promql_parser
import pytest
import yaml

from gpusharing.agent.metrics.claims import Reason
from gpusharing.agent.settling.drift import Drifted
from gpusharing.controller.metrics import Result
from harness.commands import run
from harness.gpu_cluster import MANIFESTS
from monitoring.expressions import ALERTS, MONITORING, RULES
from monitoring.known_metrics import OF_THE_TARGET, known_metrics, nodes, selectors

OPERATING: Final = MANIFESTS.parents[1] / "docs" / "operating.md"

VALUES: Final = {*Reason, *Drifted, *Result, "succeeded", "failed", "gpusharing-agent", "gpusharing-operator"}


def read(name: str) -> Any:
    return yaml.safe_load((MONITORING / name).read_text())


def grouped_by(expression: str) -> set[str] | None:
    """The labels that an aggregation leaves; None: all."""
    modifiers = [node.modifier for node in nodes(expression) if isinstance(node, promql_parser.AggregateExpr)]
    return set().union(*(modifier.labels if modifier else () for modifier in modifiers)) if modifiers else None


@pytest.mark.parametrize("alert", ALERTS)
def test_it_speaks_of_metrics_labels_and_values_that_there_are(alert: str) -> None:
    known, expression = known_metrics(), ALERTS[alert]["expr"]
    named = list(selectors(expression))
    assert named
    labels = set(OF_THE_TARGET)
    for selector in named:
        assert selector.name in known
        own = known[selector.name] | OF_THE_TARGET
        labels |= own
        for matcher in selector.matchers.matchers:
            assert matcher.name in own
            assert set(matcher.value.split("|")) <= VALUES
    assert (grouped_by(expression) or set()) <= labels


@pytest.mark.parametrize("alert", ALERTS)
def test_it_says_what_to_do_and_where_with_labels_that_it_has(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "description"}
    left = grouped_by(rule["expr"])
    if left is None:
        known = known_metrics()
        left = OF_THE_TARGET.union(*(known[selector.name or ""] for selector in selectors(rule["expr"])))
    told = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", told)) <= left
    assert f"| `{alert}` |" in OPERATING.read_text()


def test_nothing_is_told_of_alerts_that_there_are_not() -> None:
    assert set(re.findall(r"^\| `(GpuSharing\w+)` \|", OPERATING.read_text(), re.MULTILINE)) == set(ALERTS)


def test_pods_of_both_programs_are_scraped_where_they_serve_and_give_the_labels_that_alerts_use() -> None:
    [monitor] = [read("podmonitor.yaml")]
    [expression] = monitor["spec"]["selector"]["matchExpressions"]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    workloads = [
        workload
        for name in ("operator.yaml", "agent.yaml")
        for workload in yaml.safe_load_all((MANIFESTS / name).read_text())
        if workload["kind"] in {"Deployment", "DaemonSet"}
    ]
    templates = [workload["spec"]["template"] for workload in workloads]
    job = monitor["spec"]["jobLabel"]
    assert expression["key"] == job
    assert expression["values"] == [template["metadata"]["labels"][job] for template in templates]
    for template in templates:
        assert endpoint["port"] in [port["name"] for port in template["spec"]["containers"][0]["ports"]]
    assert [relabeling["targetLabel"] for relabeling in endpoint["relabelings"]] == ["node"]


@pytest.mark.cluster
async def test_it_is_built_by_kustomize(toolchain: Path) -> None:
    built = list(yaml.safe_load_all(await run([toolchain / "kubectl", "kustomize", MONITORING])))
    assert sorted(item["kind"] for item in built) == ["ConfigMap", "PodMonitor", "PrometheusRule"]


class Case(NamedTuple):
    alert: str
    what: str
    series: Mapping[str, str]
    """In the notation of promtool, a value each minute."""
    minutes: int
    fires: int


LEADING: Final = {'gpusharing_leading{pod="a"}': "1x60", 'gpusharing_leading{pod="b"}': "0x60"}
FAILURES: Final = "gpusharing_agent_prepare_failures_total"
FAILING: Final = "gpusharing_writes_failing"
ROUNDS: Final = "gpusharing_agent_rounds_total"
BROKEN: Final = "gpusharing_watch_broken_seconds"
OPERATOR: Final = '{job="gpusharing-operator",kind="ResourceClaim"}'
AGENT: Final = '{job="gpusharing-agent",node="n",kind="NodeSharing"}'
DAMAGED: Final = "gpusharing_agent_quarantined_state_files"

CASES: Final = (
    Case("GpuSharingNobodyLeads", "one leads", LEADING, 60, 0),
    Case("GpuSharingNobodyLeads", "both stand by", dict.fromkeys(LEADING, "0x60"), 3, 1),
    Case("GpuSharingNobodyLeads", "both are gone", {}, 3, 1),
    Case(
        "GpuSharingNobodyLeads",
        "a hand-over",
        {'gpusharing_leading{pod="a"}': "1x10 0x50", 'gpusharing_leading{pod="b"}': "0x11 1x50"},
        12,
        0,
    ),
    Case("GpuSharingNotSettled", "settled", LEADING | {'gpusharing_settled{pod="a"}': "1x60"}, 30, 0),
    Case("GpuSharingNotSettled", "not for long", LEADING | {'gpusharing_settled{pod="a"}': "0x60"}, 9, 0),
    Case("GpuSharingNotSettled", "not settled", LEADING | {'gpusharing_settled{pod="a"}': "0x60"}, 11, 1),
    Case(
        "GpuSharingNotSettled",
        "one stands by",
        LEADING | {'gpusharing_settled{pod="a"}': "1x60", 'gpusharing_settled{pod="b"}': "0x60"},
        30,
        0,
    ),
    Case("GpuSharingWritesFail", "none", {f'{FAILING}{{kind="ResourceQuota"}}': "0x60"}, 30, 0),
    Case("GpuSharingWritesFail", "for a while", {f'{FAILING}{{kind="ResourceQuota"}}': "0x5 3x5 0x50"}, 30, 0),
    Case(
        "GpuSharingWritesFail",
        "two kinds",
        {f'{FAILING}{{kind="{kind}"}}': "0x5 3x50" for kind in ("ResourceQuota", "NodeSharing")},
        20,
        2,
    ),
    Case("GpuSharingUndecidable", "none", {"gpusharing_undecidable_objects": "0x60"}, 30, 0),
    Case("GpuSharingUndecidable", "one", {"gpusharing_undecidable_objects": "0x5 1x50"}, 12, 1),
    Case("GpuSharingDecisionsLag", "a moment", {"gpusharing_loop_lag_seconds": "0x5 200 0x50"}, 30, 0),
    Case("GpuSharingDecisionsLag", "behind", {"gpusharing_loop_lag_seconds": "0+60x60"}, 10, 1),
    Case("GpuSharingOperatorDeaf", "a restart of the API server", {f"{BROKEN}{OPERATOR}": "0x5 20 0x50"}, 20, 0),
    Case("GpuSharingOperatorDeaf", "deaf, one after the other", {f"{BROKEN}{OPERATOR}": "0 60 119 0 60 119"}, 6, 1),
    Case("GpuSharingAgentDeaf", "a restart of the API server", {f"{BROKEN}{AGENT}": "0x5 20 0x50"}, 20, 0),
    Case("GpuSharingAgentDeaf", "deaf", {f"{BROKEN}{AGENT}": "0x5 0+60x60"}, 15, 1),
    Case("GpuSharingAgentDown", "up", {'up{job="gpusharing-agent",node="n"}': "1x60"}, 30, 0),
    Case("GpuSharingAgentDown", "a restart", {'up{job="gpusharing-agent",node="n"}': "1x5 0x3 1x50"}, 12, 0),
    Case("GpuSharingAgentDown", "down", {f'up{{job="gpusharing-agent",node="n{n}"}}': "1x5 0x50" for n in "12"}, 17, 2),
    Case("GpuSharingAgentDown", "somebody else", {'up{job="other",node="n"}': "0x60"}, 30, 0),
    Case("GpuSharingDriverHangs", "no", {'gpusharing_agent_driver_hung{node="n"}': "0x60"}, 30, 0),
    Case("GpuSharingDriverHangs", "hangs", {'gpusharing_agent_driver_hung{node="n"}': "0x5 1x50"}, 12, 1),
    Case("GpuSharingPreparesFail", "once", {f'{FAILURES}{{node="n",reason="cdi"}}': "0x5 1x60"}, 20, 0),
    Case("GpuSharingPreparesFail", "on and on", {f'{FAILURES}{{node="n",reason="cdi"}}': "0+1x60"}, 20, 1),
    Case("GpuSharingPreparesFail", "the claim's fault", {f'{FAILURES}{{node="n",reason="refused"}}': "0+1x60"}, 30, 0),
    Case("GpuSharingSettingsFail", "none", {'gpusharing_agent_gpus_with_failed_settings{node="n"}': "0x60"}, 30, 0),
    Case("GpuSharingSettingsFail", "two", {'gpusharing_agent_gpus_with_failed_settings{node="n"}': "0x5 2x50"}, 22, 1),
    Case("GpuSharingNodeStaysBehind", "once", {f'{ROUNDS}{{node="n",result="failed"}}': "0x5 1x60"}, 25, 0),
    Case("GpuSharingNodeStaysBehind", "on and on", {f'{ROUNDS}{{node="n",result="failed"}}': "0+2x60"}, 20, 1),
    Case("GpuSharingNodeStaysBehind", "rounds", {f'{ROUNDS}{{node="n",result="succeeded"}}': "0+2x60"}, 20, 0),
    Case("GpuSharingStateNotTrusted", "none", {f'{DAMAGED}{{node="n"}}': "0x60"}, 30, 0),
    Case("GpuSharingStateNotTrusted", "damaged", {f'{DAMAGED}{{node="n"}}': "1x60"}, 1, 1),
)


def test_each_alert_has_data_on_which_it_fires_and_on_which_it_does_not() -> None:
    assert {(case.alert, case.fires > 0) for case in CASES} == {(alert, fires) for alert in ALERTS for fires in (0, 1)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.what}")
def test_the_data_are_such_as_the_programs_tell(case: Case) -> None:
    known = known_metrics()
    for series in case.series:
        selector = promql_parser.parse(series)
        assert isinstance(selector, promql_parser.VectorSelector)
        assert selector.name in known
        assert {matcher.name for matcher in selector.matchers.matchers} <= known[selector.name] | OF_THE_TARGET


@pytest.mark.slow
async def test_prometheus_takes_them(promtool: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(json.dumps(RULES))
    await run([promtool, "check", "rules", "--lint=all", "--lint-fatal", rules])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.what}")
async def test_it_fires_when_it_should(promtool: Path, tmp_path: Path, case: Case) -> None:
    (tmp_path / "rules.yaml").write_text(json.dumps(RULES))
    test = {
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{case.alert}", alertstate="firing"}}) or vector(0)',
                "eval_time": f"{case.minutes}m",
                "exp_samples": [{"labels": "{}", "value": case.fires}],
            }
        ],
    }
    data = tmp_path / "data.yaml"
    data.write_text(json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}))
    await run([promtool, "test", "rules", data])
