"""Every expression that we give people, on a real Prometheus that scrapes real agents and a real operator."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from gpusharing.cli.reading.history import read_history
from harness.commands import run
from harness.eventually import eventually
from harness.prometheus import Prometheus, Sample
from monitoring.bed import PRICES, Bed, bed, dcgm_values
from monitoring.expected import NOTHING, Expected, Places, of_panels, of_queries, promised_by_namespace
from monitoring.expressions import ALERTS, LEGENDS, PANELS, QUERIES, RECORDS, VARIABLES, rendered
from monitoring.known_metrics import selectors
from monitoring.workload import GIB, WAITING, WORKERS

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

MIB: Final = 1024**2
SOON: Final = "5s"
"""An hour takes too long for a test."""
OF_TIME: Final = ("GPU-hours", "Time to prepare a claim", "Age of changes")
"""These and those of GPU-hours have tests of their own, and so has the one without honorLabels."""
OF_GPU_HOURS: Final = [name for name in QUERIES if name.startswith(("GPU-hours", "Money"))]
NOT_HONORING: Final = "What each namespace was promised, without honorLabels"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def monitored(toolchain: Path, prometheus: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bed]:
    async with bed(prometheus, tmp_path_factory.mktemp("prometheus")) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def places(monitored: Bed) -> Places:
    return {worker: await monitored.place(worker) for worker in WORKERS}


def runnable(expression: str, **chosen: str) -> str:
    return rendered(expression, **chosen).replace("[1h]", f"[{SOON}]").replace("offset 1h", f"offset {SOON}")


def by_labels(samples: Iterable[Sample], labels: tuple[str, ...]) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for sample in samples:
        key = tuple(sample.labels.get(label, "") for label in labels)
        assert key not in found, f"{sample.labels} is not the only one with {key}"
        found[key] = sample.value
    return found


async def returns(prometheus: Prometheus, expression: str, expected: Expected) -> None:
    async def check() -> None:
        found = by_labels(await prometheus.query(expression), expected.labels)
        assert found == pytest.approx(dict(expected.values))
        if expected is NOTHING:
            await is_about_something(prometheus, expression)

    await eventually(check)


async def is_about_something(prometheus: Prometheus, expression: str) -> None:
    """So that nothing is not all that it can return."""
    for selector in selectors(expression):
        assert await prometheus.query(f"count({selector.name})"), selector.name


@pytest.mark.parametrize("name", [name for name in PANELS if name not in OF_TIME])
async def test_panels(monitored: Bed, places: Places, name: str) -> None:
    await returns(monitored.prometheus, runnable(PANELS[name]), of_panels(places)[name])
    for sample in await monitored.prometheus.query(runnable(PANELS[name])):
        assert sample.labels.keys() >= set(LEGENDS[name])


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in {*OF_GPU_HOURS, NOT_HONORING}])
async def test_queries(monitored: Bed, places: Places, name: str) -> None:
    await returns(monitored.prometheus, runnable(QUERIES[name]), of_queries(places)[name])


async def test_pods_are_those_of_the_claims(monitored: Bed) -> None:
    for sample in await monitored.prometheus.query(QUERIES["Pods behind claims"]):
        assert sample.labels["pod"].removesuffix("-too") == sample.labels["claim"]


async def test_the_last_day_of_a_page(monitored: Bed, places: Places) -> None:
    """As `gpusharing ui --prometheus` shows it: each GPU is in use in another mode."""

    async def check() -> None:
        now = (await asyncio.to_thread(read_history, monitored.prometheus.url))[-1]
        assert now.gpus == (1, 1, 1, 1, 0, 0)
        assert now.promised == pytest.approx(sum(promised_by_namespace(places).values.values()))
        assert now.waiting == 1

    await eventually(check)


async def test_panels_of_times(monitored: Bed) -> None:
    async def check() -> None:
        took = by_labels(await monitored.prometheus.query(runnable(PANELS["Time to prepare a claim"])), ("sharing",))
        assert took.keys() == {("Exclusive",), ("TimeSlicing",), ("MPS",), ("MIG",)}
        # Of the other modes there was but one claim, which made the series.
        assert 0 < took["TimeSlicing",] < 60
        [age] = await monitored.prometheus.query(runnable(PANELS["Age of changes"]))
        assert 0 <= age.value < 60

    await eventually(check)


@pytest.mark.parametrize("name", RECORDS)
async def test_rules_record_what_their_expressions_return(monitored: Bed, name: str) -> None:
    labels = tuple(label for label in ("namespace", "node") if label in name)

    async def check() -> None:
        recorded = by_labels(await monitored.prometheus.query(name), labels)
        assert recorded == pytest.approx(by_labels(await monitored.prometheus.query(RECORDS[name]), labels))
        assert len(recorded) >= len(PRICES)

    await eventually(check)


async def test_gpu_hours_and_money_add_up_to_the_hardware(monitored: Bed) -> None:
    hardware = "sum by (node) (sum_over_time(node:gpusharing_gpus:count[1d])) / 60"

    async def check() -> None:
        at = evaluated()
        found = {name: await total(monitored.prometheus, QUERIES[name], at) for name in OF_GPU_HOURS}
        hours = by_labels(await monitored.prometheus.query(hardware, at=at), ("node",))
        assert hours.keys() == {(node,) for node in PRICES}
        of_day, unpromised, money, unpromised_money = (found[name] for name in OF_GPU_HOURS)
        assert of_day + unpromised == pytest.approx(sum(hours.values()))
        assert money + unpromised_money == pytest.approx(sum(hours[node,] * price for node, price in PRICES.items()))
        assert min(found.values()) > 0

    await eventually(check)


def evaluated() -> float:
    """A time of which all rules of a group have been evaluated."""
    return time.time() - 5


async def total(prometheus: Prometheus, expression: str, at: float) -> float:
    return sum(sample.value for sample in await prometheus.query(expression, at=at))


@pytest.mark.parametrize("expression", [QUERIES[OF_GPU_HOURS[0]], PANELS["GPU-hours"]], ids=["page", "panel"])
async def test_gpu_hours_of_namespaces_are_what_they_were_promised(
    monitored: Bed, places: Places, expression: str
) -> None:
    """For as long as rules have looked."""
    lately = runnable(expression).replace("[1d]", f"[{SOON}]")

    async def check() -> None:
        at = evaluated()
        hours = await monitored.prometheus.query(lately, at=at)
        [looks] = await monitored.prometheus.query(
            f'count_over_time(node:gpusharing_gpus:count{{node="node-1"}}[{SOON}])', at=at
        )
        expected = {key: gpus * looks.value / 60 for key, gpus in promised_by_namespace(places).values.items()}
        assert by_labels(hours, ("namespace",)) == pytest.approx(expected)

    await eventually(check)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cluster", []),
        ("node", ["node-1", "node-2"]),
        ("policy", ["parts", "shares"]),
        ("namespace", ["blue", "red"]),
    ],
)
async def test_values_of_variables(monitored: Bed, name: str, values: list[str]) -> None:
    series = rendered(VARIABLES[name].removeprefix("label_values(").removesuffix(f", {name})"))

    async def check() -> None:
        assert sorted(await monitored.prometheus.label_values(series, name)) == values

    await eventually(check)


@pytest.mark.parametrize(
    ("chosen", "namespaces"),
    [
        ({"namespace": "red"}, {"red"}),
        ({"node": "node-1", "namespace": "(red|blue)"}, {"red", "blue"}),
        ({"policy": "parts", "namespace": "red"}, {"red"}),
        ({"policy": "parts", "node": "node-1"}, set()),
        ({"cluster": "another"}, set()),
    ],
)
async def test_a_choice_leaves_what_belongs_to_it(
    monitored: Bed, chosen: Mapping[str, str], namespaces: set[str]
) -> None:
    async def check() -> None:
        shown = await monitored.prometheus.query(runnable(PANELS["Claims and their GPUs"], **chosen))
        assert {sample.labels["namespace"] for sample in shown} == namespaces
        assert {sample.labels["policy"] for sample in shown} <= {chosen.get("policy", "shares"), "parts"}

    await eventually(check)


async def test_without_honor_labels(monitored: Bed, places: Places) -> None:
    promised = promised_by_namespace(places)
    query = QUERIES[NOT_HONORING].replace("share_ratio", 'share_ratio{cluster="scraped"}')
    await returns(monitored.not_honoring, query, promised._replace(labels=("exported_namespace",)))
    for name, expected in of_panels(places).items():
        await returns(monitored.not_honoring, runnable(PANELS[name], cluster="restored"), expected)


@pytest.mark.parametrize("name", ALERTS)
async def test_alerts_are_quiet_while_all_is_well(monitored: Bed, name: str) -> None:
    await returns(monitored.prometheus, ALERTS[name]["expr"], NOTHING)


async def test_top_shows_what_was_measured(monitored: Bed) -> None:
    command = [sys.executable, "-m", "gpusharing", "top", "-o", "json", "--prometheus", monitored.prometheus.url]
    command += ["--kubeconfig", str(monitored.cluster.kubeconfig)]

    async def check() -> None:
        found = json.loads(await run(command))
        gpus = {(node["name"], slot): gpu for node in found["nodes"] for slot, gpu in enumerate(node["gpus"])}
        measured = {
            one["claim"]: (one.get("memoryUsedMiB"), one.get("utilization", 0))
            for gpu in gpus.values()
            for one in gpu["holders"]
        }
        assert measured == {one.name: (one.memory * GIB // MIB, one.utilization / 100) for one in WORKERS}
        of_gpus = {place: (gpu.get("memoryUsedMiB"), gpu.get("utilization")) for place, gpu in gpus.items()}
        dcgm = {place: dcgm_values(*place) for place in gpus}
        assert of_gpus == {
            place: (has["DCGM_FI_DEV_FB_USED"], has["DCGM_FI_DEV_GPU_UTIL"] / 100) for place, has in dcgm.items()
        }
        assert [one["pod"] for one in found["waiting"] if "finding" in one] == [WAITING.name]
        assert found["notes"] == []

    await eventually(check)


async def test_alerts_fire_for_programs_that_are_away(monitored: Bed) -> None:
    """The last test: both are away afterwards."""
    await monitored.cluster.agents["node-2"].kill()
    await monitored.cluster.operator.kill()

    async def they_fire() -> None:
        for alert, nodes in (("GpuSharingAgentDown", {"node-2"}), ("GpuSharingNobodyLeads", {""})):
            found = await monitored.prometheus.query(ALERTS[alert]["expr"])
            assert {sample.labels.get("node", "") for sample in found} == nodes
            # Its rules have been read.
            assert await monitored.prometheus.query(f'ALERTS{{alertname="{alert}", alertstate="pending"}}')
        assert [down.value for down in await monitored.prometheus.query(runnable(PANELS["Agents down"]))] == [1]

    await eventually(they_fire)
