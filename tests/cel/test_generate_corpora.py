"""Both collections of selectors, each with the outcome that Kubernetes' own evaluator gave."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from gpusharing import cel

DATA: Final = Path(__file__).parent / "data"
NEWEST: Final = 37


@cache
def cases(name: str) -> Any:
    return json.loads((DATA / name).read_text())


def device(form: Mapping[str, Any]) -> cel.Device:
    return cel.Device(
        form["driver"],
        form.get("attributes") or {},
        form.get("capacity") or {},
        bool(form.get("allowMultipleAllocations")),
    )


def outcomes(expression: str, minor: int, form: Mapping[str, Any]) -> set[str]:
    """Of the code that does not count costs and of the code that does, which should be the same."""
    try:
        program = cel.compile(expression, minor)
    except cel.CompileError:
        return {"compile-error"}
    try:
        answer: bool | cel.EvaluationError = program.match(device(form))
    except cel.EvaluationError as error:
        answer = error
    return {_named(answer), _named(program.measure(device(form))[0])}


def _named(answer: bool | cel.EvaluationError) -> str:
    if isinstance(answer, cel.EvaluationError):
        return "runtime-error"
    return "match" if answer else "no-match"


def is_for_scheduler(case: Mapping[str, Any]) -> bool:
    """Some cases are about what the API server refuses, or about features switched off."""
    return not case.get("envType") and not case.get("features")


@pytest.mark.parametrize("minor", [34, 35, 36, 37])
def test_authored_cases_have_kubernetes_outcome(minor: int) -> None:
    selected = [case for case in cases("cel-authored.json")["cases"] if is_for_scheduler(case)]
    differences = []
    for case in selected:
        expected = case["byVersion"].get(f"1{minor}", case["expect"]["outcome"])
        found = outcomes(case["expression"], minor, case["device"])
        if found != {expected}:
            differences.append((case["id"], case["expression"], expected, found))
    assert len(selected) > 800
    assert differences == []


def test_random_cases_have_kubernetes_outcome() -> None:
    collection = cases("cel-random.json")
    differences = []
    for case in collection["cases"]:
        found = outcomes(case["expression"], NEWEST, collection["devices"][case["device"]])
        if found != {case["expect"]}:
            differences.append((case["id"], case["expression"], case["expect"], found))
    assert len(collection["cases"]) > 2000
    assert differences == []


IN_ANY_ORDER: Final = frozenset((
    "own/macros-25-a100", "own/macros-30-a100", "own/macros2-1-a100", "own/macros2-12-a100", "own/quantity-64-a100",
))  # fmt: skip
"""Cases that stop somewhere in a map, which Go walks over in an order of its own each time."""


def test_evaluations_cost_what_they_cost_in_kubernetes() -> None:
    differences = []
    for case in cases("cel-authored.json")["cases"]:
        expected = case["expect"].get("actualCost")
        if expected is None or not is_for_scheduler(case) or case["id"] in IN_ANY_ORDER:
            continue
        _, cost = cel.compile(case["expression"], NEWEST).measure(device(case["device"]))
        if cost != expected:
            differences.append((case["id"], case["expression"], expected, cost))
    assert differences == []
