"""The API server refuses selectors by their estimated cost, so ours must be the same number."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpusharing.cel.checking.check import check
from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.cost.bound import bound
from gpusharing.cel.cost.estimate import Estimate, estimate
from gpusharing.cel.cost.paths import Path as DevicePath
from gpusharing.cel.cost.prices import COST_LIMIT
from gpusharing.cel.cost.ranges import MOST, Range
from gpusharing.cel.declarations.types import INT
from gpusharing.cel.syntax.parse import parse
from gpusharing.cel.tree import NEGATE, Call, Constantly, Node

DATA = Path(__file__).parents[1] / "data"
MINORS = (36, 37)


def cases(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((DATA / name).read_text())["cases"]
    return loaded


def estimated(expression: str, minor: int = 37) -> Estimate:
    return estimate(check(parse(expression, minor), expression, minor))


def test_the_estimates_of_authored_cases_are_those_of_kubernetes() -> None:
    authored = [case for case in cases("cel-authored.json") if "maxCost" in case["expect"]]
    assert len(authored) > 600
    wrong = [case["id"] for case in authored if estimated(case["expression"]).max != case["expect"]["maxCost"]]
    assert wrong == []


@pytest.mark.parametrize("minor", MINORS)
def test_minimum_and_maximum_are_those_of_kubernetes_for_all_functions(minor: int) -> None:
    known = [case for case in cases("cost-estimates.json") if str(minor) in case]
    assert len(known) > 400
    wrong = {
        case["expression"]: (estimated(case["expression"], minor), case[str(minor)])
        for case in known
        if list(estimated(case["expression"], minor)) != case[str(minor)]
    }
    assert wrong == {}


def test_the_known_estimates_are_about_most_functions_and_macros() -> None:
    used = Counter(
        name for case in cases("cost-estimates.json") for name in re.findall(r"([A-Za-z]+)\(", case["expression"])
    )
    assert len(used) > 120


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        ('device.driver == "gpu.example.com"', 4),
        # All that is known of an attribute is that it has no more than 64 characters or items.
        ('device.attributes["d"].x == device.attributes["d"].y', 15),
        # To select from a value of an unknown type is free.
        ('device.attributes["d"].x.a.b.c == 1', 5),
        # Of capacities Kubernetes knows the size if an index leads to them, but not if a name does.
        ('dyn(device.capacity["d"]["x"]) == dyn(device.capacity["d"]["y"])', 10),
        ('dyn(device.capacity["d"].x) == dyn(device.capacity["d"].y)', 1_844_674_407_370_955_274),
        ("has(device.driver)", 1),
    ],
)
def test_what_kubernetes_knows_of_a_device(expression: str, most: int) -> None:
    assert estimated(expression).max == most


def test_loops_multiply() -> None:
    digits = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    within = f"{digits}.all(a, {digits}.all(b, {digits}.all(c, a + b + c < 30)))"
    assert estimated(within).max < COST_LIMIT
    assert estimated(f"{digits}.all(d, {digits}.all(e, {digits}.all(f, {within})))").max > COST_LIMIT


def test_a_tree_deeper_than_pythons_stack_has_an_estimate() -> None:
    depth = 10_000
    root: Node = Constantly(id=0, at=0, value=1)
    for number in range(1, depth + 1):
        root = Call(id=number, at=0, function=NEGATE, arguments=(root,))
    types = dict.fromkeys(range(depth + 1), INT)
    overloads = dict.fromkeys(range(1, depth + 1), ("negate_int64",))
    checked = Checked("", 37, root, types, overloads, names={})
    assert estimate(checked) == Range(depth, depth)
    assert bound(checked).cost == depth


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Range(1, 2).plus(Range(3, MOST)), Range(4, MOST)),
        (Range(2, 2**40).times(Range(3, 2**40)), Range(6, MOST)),
        (Range(1, 11).scaled(0.1), Range(1, 2)),
        (Range(0, MOST).scaled(0.1), Range(0, 1_844_674_407_370_955_264)),
        (Range(0, MOST).scaled(2.0), Range(0, MOST)),
        (Range(3, 4).union(Range(1, 2)), Range(1, 4)),
    ],
)
def test_arithmetic_saturates_and_rounds_up(result: Range, expected: Range) -> None:
    assert result == expected


def test_a_second_step_from_a_path_may_change_where_the_first_one_led() -> None:
    domain = DevicePath.of_variable("device").to("attributes").to("@values")
    keys = domain.to("@keys")
    domain.to("@values")
    assert keys.steps == ["device", "attributes", "@values", "@values"]
    # Where there is no room for it, the step goes into a copy.
    deeper = keys.to("a")
    keys.to("b")
    assert deeper.steps[-1] == "a"
