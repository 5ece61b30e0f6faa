"""Code that counts costs, at the limit and where Kubernetes charges too little."""

import time
from typing import Final

import pytest

from gpusharing import cel
from gpusharing.cel.checking.check import check
from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.cost.bound import Bound
from gpusharing.cel.cost.prices import COST_LIMIT
from gpusharing.cel.syntax.parse import parse

DEVICE: Final = cel.Device("d.io", {"text": {"string": "abc"}}, {"memory": {"value": "80Gi"}})
TEXT: Final = 'device.attributes["d.io"].text'
MOST_SECONDS: Final = 3.0
"""Ten times what it should take, for a busy machine."""


@pytest.mark.parametrize(
    ("turn", "most"),
    [
        # The most turns that Kubernetes allows, as its evaluator counts.
        ("true", 498),
        ("x >= 0", 406),
        ("x * y != -3", 352),
        ("string(y) != 'a'", 376),
        (f"{TEXT} != 'b'", 332),
        ("[x, y].size() == 2", 235),
        ("cel.bind(z, x + y, z >= 0)", 332),
        (f"{TEXT}.startsWith('a')", 332),
        ("device.capacity['d.io'].memory.isGreaterThan(quantity('1'))", 315),
        (f"has({TEXT})", 376),
        ("[1, 2].exists(q, q == 2)", 242),
        ("{'a': x}['a'] == x", 159),
        ("[x].map(q, q + 1) == [x + 1]", 152),
        ("1 in [1]", 498),
    ],
)
def test_the_limit_is_where_it_is_in_kubernetes(turn: str, most: int) -> None:
    expression = f"lists.range({{0}}).all(x, lists.range({{0}}).all(y, {turn.replace('{', '{{').replace('}', '}}')}))"
    assert cel.compile(expression.format(most), 37).match(DEVICE)
    program = cel.compile(expression.format(most + 1), 37)
    with pytest.raises(cel.BudgetError):
        program.match(DEVICE)
    error, cost = program.measure(DEVICE)
    assert isinstance(error, cel.BudgetError)
    assert cost > COST_LIMIT


def test_a_budget_is_never_absorbed() -> None:
    endless = "lists.range(9999).exists(x, lists.range(9999).exists(y, x + y < 0))"
    for expression in (f"{endless} || true", f"true ? {endless} : true", f"[1].exists(i, {endless} || i == 1)"):
        with pytest.raises(cel.BudgetError):
            cel.compile(expression, 37).match(DEVICE)


def test_costs_are_counted_for_devices_beyond_the_limits_of_the_api() -> None:
    """Nobody knows what an expression costs on such a device, however cheap it is on others."""
    expression = f"{TEXT}.matches('a') || {TEXT}.matches('b') || {TEXT}.matches('c')"
    program = cel.compile(expression, 37)
    large = cel.Device("d.io", {"text": {"string": "x" * 9_000_000}}, {})
    assert program.match(DEVICE)
    assert not large.is_within_limits
    with pytest.raises(cel.BudgetError):
        program.match(large)


def doubled(count: int, first: str, double: str, result: str) -> str:
    binds = "".join(f"cel.bind(v{i}, {double.replace('_', f'v{i - 1}') if i else first}, " for i in range(count))
    return binds + result.replace("_", f"v{count - 1}") + ")" * count


@pytest.mark.parametrize(
    "expression",
    [
        "".join(f"lists.range(10).all(x{i}, " for i in range(7)) + "true" + ")" * 7,
        "lists.range(1000).all(x, lists.range(1000).all(y, x * y != -3))",
        doubled(40, f"'{'x' * 100}'", "_ + _", "size(_) > 1"),
        doubled(40, "[1, 2, 3]", "_ + _", "size(_) > 1"),
        doubled(40, "[1, 2, 3]", "[_, _]", "_ == _"),
        "lists.range(90000).map(x, [x]).size() == 90000",
        "cel.bind(a, [], cel.bind(b, a + [1], size(b) > 0 && a.all(i, v, size(a + [1]) > 0)))",
        "cel.bind(a, lists.range(20000), lists.range(30000).all(x, '%s'.format([a]) != ''))",
        "cel.bind(a, lists.range(20000).map(i, 'x'), lists.range(30000).all(x, a.indexOf('y') == -1))",
        "cel.bind(a, lists.range(90000), sets.contains(a, a))",
        "cel.bind(a, lists.range(90000), a.map(x, 90000 - x).sort().size() == 1)",
        "cel.bind(a, dyn(lists.range(40000).map(x, 40000 - x)), lists.range(1000).all(x, a.sort().size() > 0))",
        "cel.bind(a, lists.range(90000), a.distinct().size() == 1)",
        "cel.bind(a, lists.range(100000), lists.range(9000).all(x, a == a))",
        (
            "cel.bind(a, lists.range(1000), cel.bind(b, lists.range(900).map(x, a), "
            "lists.range(9000).all(y, b.flatten().size() > 1)))"
        ),
        doubled(13, f"'http://x/{'x' * 100}'", "_ + _", "lists.range(90000).all(x, isURL(_))"),
        f"lists.range(990).all(x, lists.range(990).all(y, {' && '.join(['1 in [1]'] * 600)}))",
        f"""lists.range(990).all(x, lists.range(990).all(y, {" && ".join(['""==""'] * 600)}))""",
    ],
    ids=lambda expression: expression[:40],
)
def test_what_would_take_too_long_is_given_up(expression: str) -> None:
    begin = time.process_time()
    with pytest.raises(cel.BudgetError):
        cel.compile(expression, 37).match(DEVICE)
    assert time.process_time() - begin < MOST_SECONDS


def test_metered_code_is_only_made_when_it_is_needed() -> None:
    times = 0

    def checked(expression: str, minor: int) -> Checked:
        nonlocal times
        times += 1
        return check(parse(expression, minor), expression, minor)

    program = cel.Program(checked(TEXT + " == 'abc'", 37), most=Bound(10, 10), check_again=checked)
    assert program.match(DEVICE)
    assert times == 1
    assert program.measure(DEVICE) == (True, 5)
    assert program.measure(DEVICE) == (True, 5)
    assert times == 2
    assert program.max_cost == program.max_cost > 0
    assert times == 3
