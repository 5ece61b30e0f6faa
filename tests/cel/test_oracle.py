"""The oracle is kube-scheduler: it says what the cases say that Kubernetes does."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cel.oracle_process import Oracle, Verdict

pytestmark = pytest.mark.cluster

DATA = Path(__file__).parent / "data"
DEVICE = {"driver": "gpu.example.com"}
ENDLESS = 'quantity("1e100000000").isGreaterThan(quantity("1.5"))'


@pytest.fixture(params=[36, 37])
def minor(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def oracle(minor: int) -> Iterator[Oracle]:
    with Oracle(minor) as oracle:
        yield oracle


def cases(name: str) -> Any:
    return json.loads((DATA / name).read_text())


def test_it_is_of_the_release_that_it_says(oracle: Oracle, minor: int) -> None:
    # What an API server stores must be understood by the one before it.
    assert oracle.version_for_new_objects() == f"1.{minor - 1}"


def test_authored_cases_have_the_outcome_that_they_name(oracle: Oracle, minor: int) -> None:
    authored = cases("cel-authored.json")["cases"]
    verdicts = oracle.evaluate_all([(case["expression"], [case["device"]]) for case in authored])
    assert [verdict.outcome for (verdict,) in verdicts] == [case["byVersion"][f"1{minor}"] for case in authored]


def test_random_cases_have_the_outcome_that_they_name() -> None:
    random = cases("cel-random.json")
    devices = random["devices"]
    with Oracle(37) as oracle:
        verdicts = oracle.evaluate_all([(case["expression"], [devices[case["device"]]]) for case in random["cases"]])
        assert [verdict.outcome for (verdict,) in verdicts] == [case["expect"] for case in random["cases"]]


def test_costs_are_told() -> None:
    with Oracle(37) as oracle:
        authored = {case["id"]: case for case in cases("cel-authored.json")["cases"]}
        case = authored["own/basic-0-a100"]
        (verdict,) = oracle.evaluate(case["expression"], [case["device"]])
        assert (verdict.max_cost, verdict.actual_cost) == (case["expect"]["maxCost"], case["expect"]["actualCost"])


def test_values_are_told() -> None:
    with Oracle(37) as oracle:
        questions = [('"%s!".format([device.driver])', [DEVICE]), ("string(1 / 0)", [DEVICE]), ("nope", [DEVICE])]
        assert list(oracle.values(questions)) == [["gpu.example.com!"], [None], [None]]


def test_what_hangs_costs_only_itself() -> None:
    with Oracle(37, seconds_per_question=0.2) as oracle:
        questions = [("true", [DEVICE]), (ENDLESS, [DEVICE, DEVICE]), ("false", [DEVICE]), (ENDLESS, [DEVICE])]
        outcomes = [[verdict.outcome for verdict in verdicts] for verdicts in oracle.evaluate_all(questions)]
        assert outcomes == [["match"], ["timeout"] * 2, ["no-match"], ["timeout"]]
        assert oracle.evaluate("true", [DEVICE]) == [Verdict("match", max_cost=0, actual_cost=0)]


def test_what_kills_the_oracle_costs_only_itself() -> None:
    with Oracle(37, seconds_per_question=60) as oracle:
        verdicts = oracle.evaluate_all([("true", [DEVICE]), (ENDLESS, [DEVICE]), ("false", [DEVICE])])
        outcomes = [next(verdicts)[0].outcome]
        assert oracle._child is not None
        threading.Timer(0.2, oracle._child.kill).start()
        outcomes += [verdict.outcome for (verdict,) in verdicts]
        assert outcomes == ["match", "crash", "no-match"]


def test_who_stops_listening_hears_nothing_of_it_later() -> None:
    with Oracle(37) as oracle:
        next(oracle.evaluate_all([("true", [DEVICE])] * 10_000))
        assert [verdict.outcome for verdict in oracle.evaluate("false", [DEVICE])] == ["no-match"]
