"""Code that counts no costs is only for expressions that cannot become too expensive."""

import json
from pathlib import Path
from typing import Any

import pytest

from cel.generator.cases import case
from cel.oracle_process import Oracle
from gpusharing import cel
from gpusharing.cel.checking.check import check
from gpusharing.cel.cost.bound import Bound, bound
from gpusharing.cel.cost.prices import COST_LIMIT
from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.parse import parse

DATA = Path(__file__).parents[1] / "data"
MOST_WORK = 1_000_000


def bounds(expression: str, minor: int = 37) -> Bound:
    return bound(check(parse(expression, minor), expression, minor))


def is_within_limits(device: dict[str, Any]) -> bool:
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    return cel.Device(device["driver"], attributes, capacity).is_within_limits


def test_no_authored_case_costs_more_than_its_bound() -> None:
    authored: list[dict[str, Any]] = json.loads((DATA / "cel-authored.json").read_text())["cases"]
    measured = [case for case in authored if "actualCost" in case["expect"]]
    assert len(measured) > 600
    too_low = [case["id"] for case in measured if bounds(case["expression"]).cost < case["expect"]["actualCost"]]
    assert too_low == []


@pytest.mark.cluster
@pytest.mark.parametrize("minor", [36, 37])
def test_no_random_selector_costs_more_than_its_bound(minor: int) -> None:
    random = [case(seed=4, number=number) for number in range(1500)]
    checked = 0
    with Oracle(minor) as oracle:
        answers = oracle.evaluate_all([(str(each.tree), each.devices) for each in random])
        for each, verdicts in zip(random, answers, strict=True):
            try:
                most = bounds(str(each.tree), minor).cost
            except CompileError:
                continue
            for device, verdict in zip(each.devices, verdicts, strict=True):
                if verdict.actual_cost is not None and is_within_limits(device):
                    assert verdict.actual_cost <= most, str(each.tree)
                    checked += 1
    assert checked > 1000


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.nvidia.com"',
        'device.attributes["gpu.nvidia.com"].productName.matches("^NVIDIA (A100|H100).*")',
        'device.attributes["gpu.nvidia.com"].architecture in ["Ampere", "Hopper"]',
        'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0',
        'semver(device.attributes["gpu.nvidia.com"].driverVersion).isGreaterThan(semver("550.0.0"))',
        'device.attributes["gpu.nvidia.com"].profiles.exists(p, p.startsWith("1g") && p.endsWith("gb"))',
        'cel.bind(gpu, device.attributes["gpu.nvidia.com"], gpu.brand + "-" + gpu.type == "Nvidia-gpu")',
        'device.attributes["gpu.nvidia.com"].?numaNode.orValue(0) == 0 && "x" in device.attributes["gpu.nvidia.com"]',
        'device.attributes.exists(domain, domain.endsWith("nvidia.com"))',
        'cidr("10.0.0.0/8").containsIP(device.attributes["dra.net"].ip)',
        'device.attributes["gpu.nvidia.com"].numaNodes.includes(1) && device.allowMultipleAllocations',
    ],
)
def test_ordinary_selectors_need_not_count(expression: str) -> None:
    most = bounds(expression)
    assert most.cost <= COST_LIMIT
    assert most.work <= MOST_WORK


BIG = '"' + "x" * 5000 + '"'
DIGITS = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


def doubled(what: str, times: int) -> str:
    """Binds the double of the double of ..."""
    doubles = "".join(f"cel.bind(x{each + 1}, x{each} + x{each}, " for each in range(times))
    return f"cel.bind(x0, {what}, {doubles}size(x{times}) > 0{')' * (times + 1)}"


@pytest.mark.parametrize(
    "expression",
    [
        "".join(f"{DIGITS}.all(x{level}, " for level in range(7)) + "true" + ")" * 7,
        doubled(BIG, 20),
        doubled(f"dyn({BIG})", 20),
        doubled("[1]", 20),
        "lists.range(500000).all(x, x >= 0)",
        f'size({BIG}.replace("x", {BIG})) > 0',
        f'size({DIGITS}.map(x, {BIG}.replace("x", {BIG}))) > 0',
        f"{DIGITS}.map(a, {DIGITS}.map(b, {DIGITS}.map(c, {DIGITS}.map(d, {DIGITS})))).flatten(4).size() > 0",
        '"%.999999999f".format([1.0]).size() > 0',
        f"cel.bind(x, [[{BIG}]].map(a, {DIGITS}.map(b, {DIGITS}.map(c, {DIGITS}.map(d, a)))), {DIGITS}.all(e, x == x))",
        # A variable that begins as an empty list grows with every sum.
        f"cel.bind(x, [], {DIGITS}.map(a, x + [a]).size() > 0)",
        f'{DIGITS}.all(a, {DIGITS}.all(b, {DIGITS}.all(c, "x".matches("(a{{1,100}}){{1,10}}" + string(a)))))',
    ],
)
def test_what_may_become_large_must_count(expression: str) -> None:
    most = bounds(expression)
    assert most.cost > COST_LIMIT or most.work > MOST_WORK


def test_many_variables_bound_to_one_another_are_bounded_in_time() -> None:
    assert bounds(doubled("[[[[1]]]]", 80)).work > MOST_WORK
    nested = "".join(f"cel.bind(x{each + 1}, [x{each}], " for each in range(80))
    assert bounds(f"cel.bind(x0, [1], {nested}true{')' * 81}").cost < COST_LIMIT
