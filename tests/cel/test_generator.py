"""The generator covers the language, and is the same everywhere."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from cel.generator.cases import case, costly_case, is_told, telling_case
from cel.generator.kinds import Kind, parse, unify
from cel.generator.quoting import quoted
from cel.oracle_process import Oracle

TESTS = Path(__file__).parents[1]
SOME = 4_000
# Only an authorizer has these, and selectors have none.
OF_AN_AUTHORIZER = frozenset(
    {
        "allowed", "check", "error", "errored", "fieldSelector", "group", "labelSelector", "name", "namespace", "path",
        "reason", "resource", "serviceAccount", "subresource",
    }
)  # fmt: skip
OLD_SPELLINGS = frozenset({"__not_strictly_false__"})


def printed_by_another_process(hash_seed: str) -> str:
    code = "from cel.generator.cases import case; print(*(case(7, n) for n in range(50)), sep='\\n')"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(TESTS)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_the_same_seed_gives_the_same_cases_everywhere() -> None:
    assert printed_by_another_process("1") == printed_by_another_process("2")


def test_other_seeds_give_other_cases() -> None:
    assert {str(case(1, number).tree) for number in range(50)} != {str(case(2, number).tree) for number in range(50)}


@pytest.mark.parametrize(
    ("pattern", "wanted", "found"),
    [
        ("int", "int", {}),
        ("int", "string", None),
        ("A", "list(int)", {"A": "list(int)"}),
        ("map(K, A)", "map(string, list(bool))", {"K": "string", "A": "list(bool)"}),
        ("map(A, A)", "map(int, bool)", None),
        ("N", "string", None),
    ],
)
def test_kinds_are_unified(pattern: str, wanted: str, found: dict[str, str] | None) -> None:
    variables: dict[str, Kind] = {}
    if found is None:
        assert not unify(parse(pattern), parse(wanted), variables)
    else:
        assert unify(parse(pattern), parse(wanted), variables)
        assert variables == {name: parse(kind) for name, kind in found.items()}


@pytest.mark.cluster
def test_strings_are_quoted_so_that_kubernetes_reads_the_same() -> None:
    random = Random(1)  # noqa: S311
    texts = [
        "".join(random.choices("ab01\"'\\`?\n\r\t\x00\x1f\x7fäΣ日😀\ufeff{}$%u x", k=random.randint(0, 12)))
        for _ in range(2_000)
    ]
    with Oracle(37) as oracle:
        questions = [(f"device.driver == {quoted(random, text)}", [{"driver": text}]) for text in texts]
        refused = [
            question for question, (verdict,) in zip(questions, oracle.evaluate_all(questions), strict=True)
            if verdict.outcome != "match"
        ]  # fmt: skip
    assert not refused


@pytest.mark.cluster
def test_each_outcome_is_well_represented() -> None:
    with Oracle(37) as oracle:
        cases = [case(1, number) for number in range(SOME)]
        verdicts = oracle.evaluate_all([(str(each.tree), each.devices) for each in cases])
        outcomes = Counter(verdict.outcome for on_devices in verdicts for verdict in on_devices)
    for outcome in ("match", "no-match", "compile-error", "runtime-error"):
        assert outcomes[outcome] > outcomes.total() / 10, outcomes


@pytest.mark.cluster
def test_all_that_selectors_may_call_is_called() -> None:
    with Oracle(37) as oracle:
        told = [is_told(telling_case(1, number), "") for number in range(2 * SOME)]
        expressions = [str(each.tree) for each in (*told, *(case(1, number) for number in range(2 * SOME)))]
        called = {overload for overloads in oracle.overloads(expressions) for overload in overloads}
        text = "\n".join(expressions)
        missing = [
            (function, overload)
            for function, overload in oracle.all_overloads()
            if function not in OF_AN_AUTHORIZER | OLD_SPELLINGS
            and overload not in called
            and not (_is_macro(overload) and f"{function}(" in text)
        ]
    assert not missing


@pytest.mark.cluster
def test_costly_selectors_cost_about_as_much_as_they_may() -> None:
    limit = 1_000_000
    with Oracle(37) as oracle:

        def price(expression: str, device: dict[str, object]) -> int:
            return oracle.evaluate(expression, [device])[0].actual_cost or 0

        cases = [costly_case(1, number, price) for number in range(40)]
        verdicts = [oracle.evaluate(str(each.tree), each.devices)[0] for each in cases]
    over = sum("cost limit exceeded" in verdict.error for verdict in verdicts)
    near = sum(abs((verdict.actual_cost or 0) - limit) < limit / 50 for verdict in verdicts)
    assert 5 < over < 35
    assert near > 8


def _is_macro(overload: str) -> bool:
    return overload.endswith((":true", ":false"))
