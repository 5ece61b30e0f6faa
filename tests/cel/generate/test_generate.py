"""Generated code: what is evaluated when, what comes into its source, and how deep expressions may be."""

import re
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing import cel
from gpusharing.cel.checking.check import check
from gpusharing.cel.generate import source_of
from gpusharing.cel.runtime.faults import Breakdown
from gpusharing.cel.syntax.parse import parse

ATTRIBUTES: Final[dict[str, dict[str, Any]]] = {
    "text": {"string": "abc"},
    "number": {"int": 5},
    "flag": {"bool": True},
    "version": {"version": "1.2.3"},
    "texts": {"strings": ["a", "b"]},
    "numbers": {"ints": [3, 1, 2]},
}
CAPACITY: Final = {"memory": {"value": "80Gi"}, "big": {"value": "1234567890123456789012"}}
DEVICE: Final = cel.Device("d.io", ATTRIBUTES, CAPACITY)
TEXT: Final = 'device.attributes["d.io"].text'
NUMBER: Final = 'device.attributes["d.io"].number'
VERSION: Final = 'device.attributes["d.io"].version'
ABSENT: Final = 'device.attributes["d.io"].absent'
BROKEN: Final = f'{VERSION} in ["a"]'
"""A semantic version cannot be in a set: Kubernetes' evaluator breaks down over it."""


def outcome(expression: str, minor: int = 37, device: cel.Device = DEVICE) -> bool | str:
    """ "error" if it may be absorbed, "breakdown" if not."""
    program = cel.compile(expression, minor)
    assert _named(lambda: program.match(device)) == _named(lambda: _answer(program, device))
    return _named(lambda: program.match(device))


def _answer(program: cel.Program, device: cel.Device) -> bool:
    answer, _ = program.measure(device)
    if isinstance(answer, cel.EvaluationError):
        raise answer
    return answer


def _named(evaluate: Callable[[], bool]) -> bool | str:
    try:
        return evaluate()
    except (Breakdown, cel.BudgetError):
        return "breakdown"
    except cel.EvaluationError:
        return "error"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{ABSENT} == 1 || true", True),
        (f"true || {ABSENT} == 1", True),
        (f"{ABSENT} == 1 && false", False),
        (f"{ABSENT} == 1 || {NUMBER} == 5", True),
        (f"{NUMBER} == 5 && ({ABSENT} == 1 || {NUMBER} == 4)", "error"),
        (f"{ABSENT} == 1 && {ABSENT} == 2 && {NUMBER} == 4", False),
        (f"{TEXT} || true", True),
        (f"{TEXT} && false", False),
        (f"{TEXT} || false", "error"),
        ("[1, 2, 0].exists(x, 1 / x == 1)", True),
        ("[0, 1].exists(x, 1 / x == 5)", "error"),
        ("[0, 1].all(x, 1 / x == 5)", False),
        ("[0, 1].all(x, 1 / x == 1)", "error"),
        ("[0, 1].exists_one(x, 1 / x == 1)", "error"),
        ("[0, 1].map(x, 1 / x).size() == 2 || true", True),
        (f"(true ? {NUMBER} : {ABSENT}) == 5", True),
        (f"(false ? {NUMBER} : {ABSENT}) == 5", "error"),
        (f"cel.bind(x, {ABSENT}, true)", True),
        (f"cel.bind(x, {ABSENT}, x == 1 || true)", True),
        (f"cel.bind(x, {ABSENT}, x == 1 || x == 2)", "error"),
        ("optional.of(1).orValue(1 / 0) == 1", True),
        ("optional.none().or(optional.of(2)).value() == 2", True),
        (f"{{}}[?'a'][{ABSENT}].hasValue() == false", True),
        (f"{BROKEN} || true", "breakdown"),
        (f"true || {BROKEN}", True),
        (f"({ABSENT} == 1) == ({BROKEN}) || true", "breakdown"),
        (f"cel.bind(x, {BROKEN}, true)", True),
        (f"[1, 2].exists(x, {BROKEN} || x == 2)", "breakdown"),
        (f"[0, 1].map(x, x == 0 ? 1 / x : ({BROKEN} ? 1 : 2)).size() == 2 || true", "breakdown"),
    ],
)
def test_errors_count_only_where_they_do_in_kubernetes(expression: str, expected: bool | str) -> None:
    assert outcome(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # What is dynamic may turn out to be anything, whatever the checker believes.
        ('dyn(optional.of("a")).orValue(1) + 1 == 2 || true', True),
        ("dyn(optional.of(true))", True),
        ("dyn(type(1)).matches('int')", True),
        ("dyn(optional.of('abc')).matches('a')", True),
        ('true ? has(device.attributes["d.io"].?flag.x) : false', "error"),
        ('has(device.attributes["d.io"].?flag.x)', False),
        ('quantity("1").isLessThan(quantity(dyn(1))) || true', True),
        ('quantity("1").isLessThan(quantity(dyn(1)))', "error"),
        ("-dyn(duration('1s')) == duration('-1s')", True),
        ("size({dyn(1): 'a', dyn(1u): 'b', dyn(1.0): 'c', dyn(true): 'd'}) == 4", True),
        ("{1: 'a'}[dyn(1.0)] == 'a' && dyn(1u) in {1: 'a'}", True),
        # The kinds of lists.
        (f"[{VERSION}, {VERSION}] == ['a', 'b']", True),
        (f"([{VERSION}] + [{VERSION}]) == ['a', 'b']", "error"),
        ("cel.bind(a, [], (a + [1]) == (a + [2]))", True),
        # The device itself.
        ("type(device) == map && size(dyn(device)) == 4", True),
        ("{'nope': {}} == dyn(device.attributes)", True),
        ("'nope' in device.attributes", False),
        ("has(device.attributes.nope)", True),
        ("dyn(optional.of('memory')) in device.capacity['d.io']", True),
        # Constants.
        ("dyn(1) in [1.0]", True),
        ("1 in [2, 3]", False),
        (f"{ABSENT} in []", False),
        # Messages.
        ("google.protobuf.Int64Value{value: 1} == 1", True),
        ("google.protobuf.Struct{fields: {'a': 1}}.a == 1.0", True),
        ("google.protobuf.Any{type_url: 'a'} == null", "error"),
    ],
)  # fmt: skip
def test_oddities_are_kubernetes_own(expression: str, expected: bool | str) -> None:
    assert outcome(expression) == expected


@pytest.mark.parametrize(
    ("expression", "in_1_36", "in_1_37"),
    [
        (f"{NUMBER}.orValue(5) == 5", True, "error"),
        ("cel.bind(v, device.attributes['d.io'].?version, v.value().major() == 1)", "error", True),
        ("lists.range(-1).size() == 0", True, "error"),
        ("[1, 2].includes(2)", True, True),
        ("lists.range(49).includes(48)", "error", True),
        ('device.capacity["d.io"].big.add(quantity("1e30")).compareTo(device.capacity["d.io"].big) == 0', True, False),
    ],
)
def test_versions_of_kubernetes_differ(expression: str, in_1_36: bool | str, in_1_37: bool | str) -> None:
    assert (outcome(expression, 36), outcome(expression, 37)) == (in_1_36, in_1_37)


def test_what_one_evaluation_does_to_a_quantity_is_not_seen_by_another() -> None:
    compare = cel.compile('device.capacity["d.io"].memory.isLessThan(device.capacity["d.io"].big)', 37)
    is_integer = cel.compile('device.capacity["d.io"].memory.isInteger()', 37)
    both = cel.compile(
        'device.capacity["d.io"].memory.isLessThan(device.capacity["d.io"].big)'
        ' && device.capacity["d.io"].memory.isInteger()',
        37,
    )
    device = cel.Device("d.io", {}, CAPACITY)
    for _ in range(2):
        assert both.match(device) is False
        assert is_integer.match(device) is True
        assert compare.match(device) is True
        assert both.measure(device)[0] is False


def test_the_least_integer_is_taken_away_from_a_quantity_as_it_was() -> None:
    """From a small one Kubernetes takes it the wrong way."""
    compare = cel.compile('device.capacity["d.io"].memory.isLessThan(device.capacity["d.io"].big)', 37)
    is_positive = cel.compile(
        'device.capacity["d.io"].memory.sub(device.attributes["d.io"].i).isGreaterThan(quantity("0"))', 37
    )
    attributes = {"d.io/i": {"int": -(1 << 63)}}
    alone = is_positive.match(cel.Device("d.io", attributes, CAPACITY))
    device = cel.Device("d.io", attributes, CAPACITY)
    assert compare.match(device) is True
    assert is_positive.match(device) is alone is False


# --- The source -------------------------------------------------------------------------------------------------------

WORDS: Final = frozenset((
    "def", "return", "if", "else", "for", "in", "is", "not", "and", "or", "try", "except", "raise", "pass",
    "break", "continue", "None", "True", "False", "f", "d", "m",
))  # fmt: skip
MEMBERS: Final = frozenset((
    "driver", "attributes", "capacity", "allow_multiple_allocations", "as_map", "with_own_quantities", "get", "append",
    "startswith", "endswith", "copy", "cost", "work", "check", "run", "sort", "call", "refuse_errors", "refuse",
    "equal", "unequal", "format", "call_if_affordable", "call_for_all_inside", "searching",
))  # fmt: skip
GENERATED_NAME: Final = re.compile(r"[vcgh][0-9]+")


def source(expression: str, *, metered: bool) -> str:
    return source_of(check(parse(expression, 37), expression, 37), metered=metered)[0]


def assert_ours(text: str) -> None:
    assert "'" not in text
    assert '"' not in text
    for dot, word in re.findall(r"(\.?)\b([^\W\d]\w*)", text):
        assert word in (MEMBERS if dot else WORDS) or GENERATED_NAME.fullmatch(word), word


EXOTIC: Final = (
    f'cel.bind(__class__, {TEXT}, __class__.startsWith("__import__") || __class__ == "os.system(1)")',
    'device.attributes["d.io"].`__dict__` == b"bytes" && {"__globals__": 12345}.__globals__ == 67890',
    "[1, 2].map(lambda, lambda + 31337).exists(None, None == 0x7fff) && 2.5 < 1e3 && 7u > 3u",
    'cel.bind(exec, optional.of({"eval": "x"}), exec.?eval.orValue("y").matches("(?P<compile>a)"))',
    'duration("1h") < duration("2h") && "%s%d".format(["a", 1]) == "a1" && "f" in {"f": 1}.map(d, d)',
    f'{{"a": {TEXT}}}.transformMap(c0, v1, v1 + "m").exists(g1, f, g1 == "a" && f == "abcm")',
)


@pytest.mark.parametrize("metered", [False, True])
@pytest.mark.parametrize("expression", EXOTIC)
def test_no_identifier_or_literal_comes_into_the_source(expression: str, metered: bool) -> None:
    assert_ours(source(expression, metered=metered))


@given(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True),
    st.text(alphabet=st.characters(exclude_categories=["C"], exclude_characters='"\\'), max_size=20),
    st.integers(0, 2**62),
)
def test_whatever_names_and_literals_there_are(name: str, text: str, number: int) -> None:
    expression = f'{{"{text}": {number}}}.exists({name}, {name} == "{text}" && size({name}) != {number})'
    try:
        written = "\n".join(source(expression, metered=metered) for metered in (False, True))
    except cel.CompileError:  # a reserved word
        return
    assert_ours(written)
    assert outcome(expression) == (len(text) != number)


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=4))
def test_selectors_of_one_shape_keep_their_own_constants(numbers: list[int]) -> None:
    assert len({source(f"{NUMBER} == {number}", metered=False) for number in numbers}) == 1
    programs = [cel.compile(f"{NUMBER} + ({number}) == 5 + ({number})", 37) for number in numbers]
    others = [cel.compile(f"{NUMBER} + ({number}) == 6 + ({number})", 37) for number in numbers]
    assert [program.match(DEVICE) for program in programs] == [True] * len(numbers)
    assert [program.match(DEVICE) for program in others] == [False] * len(numbers)


# --- Depth ------------------------------------------------------------------------------------------------------------


def nested(opening: str, depth: int, inside: str) -> str:
    return "".join(opening.replace("_", str(level)) for level in range(depth)) + inside + ")" * depth


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 200 + "true" + " && true || false)" * 200,
        f"({ABSENT} == 1 || " * 60 + "true" + ")" * 60,
        "(true ? " * 200 + "true" + " : false)" * 200,
        f"{NUMBER} == 1 ? false : " * 100 + "true",
        nested("[1].exists(x_, ", 40, " && ".join(f"x{i} == 1" for i in range(40))),
        nested("[1].map(x_, ", 40, "1") + ".size() == 1",
        nested("cel.bind(x_, 7 / (_ + 1), ", 60, "x59 + x0 == 7"),
        "[" * 200 + "]" * 200 + " == " + "[" * 200 + "]" * 200,
        "!" * 200 + "true",
        "string(" * 200 + "device.driver" + ")" * 200 + ' == "d.io"',
        "1" + " + 1" * 240 + " == 241",
        " && ".join([f"{NUMBER} == 5"] * 200),
        "dyn({})" + ".a" * 240 + " == 1 || true",
        "[0][" * 120 + "0" + "]" * 120 + " == 0",
        f"[{', '.join(map(str, range(1800)))}].size() == 1800",
        f"({' || '.join(['false'] * 500)}) == false",
    ],
    ids=lambda expression: expression[:30],
)  # fmt: skip
def test_what_kubernetes_takes_is_not_too_deep_for_python(expression: str) -> None:
    assert outcome(expression) is True


def test_constants_are_constants_however_deep_they_are() -> None:
    deep = "[" * 60 + "1" + "]" * 60
    assert cel.compile(f"{deep} == {deep}", 37).measure(DEVICE) == (True, 1)


# --- Several at once --------------------------------------------------------------------------------------------------


def test_programs_can_be_used_by_threads_at_the_same_time() -> None:
    expressions = [
        f"cel.bind(x, {NUMBER}, [4, 5].exists(y, y == x)) && {ABSENT} != 1 || {NUMBER} == 5",
        'cel.bind(of, device.capacity["d.io"], of.memory.isLessThan(of.big) && of.memory.isInteger())',
        "lists.range(2000).all(x, x >= 0 && cel.bind(y, x + 1, y > x))",
    ]
    programs = [cel.compile(expression, 37) for expression in expressions]
    expected = [program.match(DEVICE) for program in programs]
    differences: list[Any] = []

    def work() -> None:
        for _ in range(10):
            found = [program.match(DEVICE) for program in programs]
            differences.extend([found] if found != expected else [])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert expected == [True, False, True]
    assert differences == []


@pytest.mark.parametrize(
    "expression",
    [
        'sets.intersects(device.attributes["d.io"][?"absent"].orValue(null), [{1: device}])',
        '[{"a": 1}].exists(m, device.attributes["d.io"].absent == m) || {"{}": {"b": 2}} == {"{}": {"b": 2}}',
        'size([{"c1": {"a": 1}, "d": {}}]) == 1 && (device.attributes["d.io"].absent in [{"x": 1}] || true)',
    ],
)
def test_braces_of_maps_are_no_places_to_fill_in(expression: str) -> None:
    program = cel.compile(expression, 37)
    for answer in (program.measure(DEVICE)[0], program.measure(cel.Device("other", {}, {}))[0]):
        assert isinstance(answer, bool | cel.EvaluationError)
