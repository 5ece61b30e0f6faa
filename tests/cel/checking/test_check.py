"""The checker accepts what Kubernetes' checker accepts, finds the same types, and says what is wrong with the rest."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cel.checked_texts import ATTRIBUTE, NEWEST, checked, refusal
from cel.shapes import nodes
from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.errors import CompileError
from gpusharing.cel.tree import Call

DATA: Final = Path(__file__).parents[1] / "data"


# --- Types ------------------------------------------------------------------------------------------------------------

TYPES = [
    ("1", "int"),
    ("1u", "uint"),
    ("1.0", "double"),
    ("'a'", "string"),
    ("b'a'", "bytes"),
    ("null", "null_type"),
    ("device", "kubernetes.DRADevice"),
    ("device.driver", "string"),
    ("device.allowMultipleAllocations", "bool"),
    ("device.attributes", "map(string, map(string, dyn))"),
    ("device.attributes.d", "map(string, dyn)"),
    (ATTRIBUTE, "dyn"),
    ('device.capacity["d"].memory', "kubernetes.Quantity"),
    ('device.?capacity["d"].?memory', "optional_type(kubernetes.Quantity)"),
    ('device.capacity[?"d"].memory', "optional_type(kubernetes.Quantity)"),
    (f"{ATTRIBUTE} + 1", "int"),
    (f"{ATTRIBUTE} + {ATTRIBUTE}", "dyn"),
    (f"{ATTRIBUTE} < 1", "bool"),
    (f"{ATTRIBUTE}.b[0].c", "dyn"),
    (f"-{ATTRIBUTE}", "dyn"),
    ("[]", "list(dyn)"),
    ("{}", "map(dyn, dyn)"),
    ("[] + [1]", "list(int)"),
    ("[[], [1]]", "list(list(int))"),
    ("[{}, {'a': 1u}]", "list(map(string, uint))"),
    ("[dyn(1), dyn('a')]", "list(dyn)"),
    ("[?optional.of(1), 2]", "list(int)"),
    ("{'a': 1, ?'b': optional.none()}", "map(string, int)"),
    ("true ? 1 : 2", "int"),
    ("true ? 1 : dyn('a')", "dyn"),
    ("true ? [] : [1]", "list(int)"),
    ("true ? null : device", "null_type"),
    ("true ? device : null", "kubernetes.DRADevice"),
    ("optional.none()", "optional_type(dyn)"),
    ("optional.of(1).or(optional.none())", "optional_type(int)"),
    ("optional.none().orValue(1)", "int"),
    ("[1][?0]", "optional_type(int)"),
    ("optional.of([1])[0]", "optional_type(int)"),
    ("[1].first()", "optional_type(int)"),
    ("optional.of(1).optMap(x, string(x))", "optional_type(string)"),
    ("optional.of(1).optFlatMap(x, ['a'][?x])", "optional_type(string)"),
    ("[1].map(x, string(x))", "list(string)"),
    ("[1].map(x, x > 0, {x: 'a'})", "list(map(int, string))"),
    ("{'a': 1}.map(k, k)", "list(string)"),
    ("{'a': 1}.transformList(k, v, v)", "list(int)"),
    ("['a'].transformMap(i, v, v)", "map(int, string)"),
    ("['a'].transformMapEntry(i, v, {v: i})", "map(string, int)"),
    (f"{ATTRIBUTE}.map(x, x)", "list(dyn)"),
    ("cel.bind(x, [1], x[0])", "int"),
    ("[3, 1].sortBy(x, -x)", "list(int)"),
    ("[[1]].flatten()", "list(int)"),
    ("type(1)", "type(int)"),
    ("int", "type(int)"),
    ("google.protobuf.Timestamp", "type(google.protobuf.Timestamp)"),
    ("type(type(1))", "type(type(int))"),
    ("google.protobuf.NullValue.NULL_VALUE", "int"),
    ("google.protobuf.Int64Value{value: 1}", "wrapper(int)"),
    ("google.protobuf.Value{}", "dyn"),
    ("google.protobuf.Struct{}", "map(string, dyn)"),
    ("kubernetes.DRADevice{driver: 'a'}.driver", "string"),
    ("timestamp(1) - timestamp(2)", "google.protobuf.Duration"),
    ("semver('1.0.0').major()", "int"),
    ("ip('1.2.3.4')", "net.IP"),
    ("cidr('1.2.3.4/8').masked()", "net.CIDR"),
    ("url('a').getQuery()", "map(string, list(string))"),
    ("format.named('a')", "optional_type(kubernetes.NamedFormat)"),
]


@pytest.mark.parametrize(("text", "type_"), TYPES)
def test_a_part_of_an_expression_has_its_type(text: str, type_: str) -> None:
    # As an element of a list of one: the whole must be true or false, and this compares with anything.
    expression = f"[{text}] == dyn(1)"
    found = checked(expression)
    assert isinstance(found.root, Call)
    assert str(found.types[found.root.arguments[0].id]) == f"list({type_})"


# --- Names ------------------------------------------------------------------------------------------------------------

# Expression, name as written, what it stands for, since which version so.
NAMES = [
    ("device.driver == 'a'", "device", "device", 34),
    (".device.driver == 'a'", ".device", "device", 34),
    ("[1].all(x, x == 1)", "x", "x", 34),
    ("[1].all(device, device == 1)", "device", "device", 34),
    ("[1].all(device, .device.driver == 'a')", ".device", ".device", 37),
    ("type(1) == int", "int", "int", 34),
    ("['a'].all(int, int == 'a')", "int", "int", 34),
]


@pytest.mark.parametrize(("text", "written", "meant", "since"), NAMES)
def test_a_name_is_the_innermost_variable_or_else_global(text: str, written: str, meant: str, since: int) -> None:
    for minor in range(since, NEWEST + 1):
        found = checked(text, minor)
        names = {found.names[node.id] for node in nodes(found.root) if getattr(node, "name", "") == written}
        assert names == {meant}


def test_a_name_with_dots_is_one_name() -> None:
    found = checked("type(1) == google.protobuf.Duration")
    assert list(found.names.values()) == ["google.protobuf.Duration"]


# --- Versions ---------------------------------------------------------------------------------------------------------

# Accepted since, accepted until.
BY_VERSION = [
    (f"{ATTRIBUTE}", 34, NEWEST),
    (f"{ATTRIBUTE} == 1", 34, NEWEST),
    (f"{ATTRIBUTE}.all(x, x > 1)", 36, NEWEST),
    (f"'%d'.format([{ATTRIBUTE}]) == '1'", 36, NEWEST),
    (f"{ATTRIBUTE}.includes(1)", 36, NEWEST),
    ("dyn(true)", 36, NEWEST),
    ("duration(1 + 0) == duration('1s')", 34, 36),
    ("google.protobuf.BoolValue{}", 37, NEWEST),
    ("list{} == []", 37, NEWEST),
    ("device.`driver` == ''", 37, NEWEST),
    ("[1].all(device, .device.driver == '')", 37, NEWEST),
    ("[1].all(x, .x == 1)", 34, 36),
    ("[1].all(google, type(1) == google.protobuf.Timestamp)", 34, 36),
    ("[1].exists_one(i, x, x == 1)", 34, NEWEST),
    ("[1].existsOne(i, x, x == 1)", 34, NEWEST),
    ("semver('v1', true).major() == 1", 34, NEWEST),
    ("[1].indexOf(1) == 0", 34, NEWEST),
    ("[3, 1].sort() == [1, 3]", 34, NEWEST),
]


@pytest.mark.parametrize(("text", "since", "until"), BY_VERSION)
def test_versions_of_kubernetes_differ(text: str, since: int, until: int) -> None:
    for minor in range(34, NEWEST + 1):
        if since <= minor <= until:
            checked(text, minor)
        else:
            refusal(text, minor)


# --- Refusals ---------------------------------------------------------------------------------------------------------


def test_of_several_errors_the_first_in_the_text_is_named() -> None:
    assert refusal("[1].all(x, x == 'a') && y").offset == len("[1].all(x, x ")
    assert refusal("y + 1 == z").offset == 0


# What is odd, and accepted by Kubernetes all the same.
ACCEPTED = [
    "[].all(x, x)",
    "'%s %d'.format([['a', 1, {1: 2u}], 1]) == ''",
    "'%s'.format([?dyn(1)]) == ''",
    "'%.03d%%'.format([1]) == ''",
    "'%f %e'.format(['NaN', 'Infinity']) == ''",
    "[[], [1], []] == [[1]]",
    "[google.protobuf.Int64Value{value: 1}, 2] == [1]",
    "device == null",
    "optional.none() == null",
    "quantity('1') == null",
    "dyn(1).allowed()",
    "device.attributes.d.a.b.c.d",
    "{[1]: 1} == {}",
    "{b'a' + b'a': 1} == dyn(1)",
    "['a'].all(int, type(int) == string)",
    "cel.bind(google, {'protobuf': {'Duration': true}}, google.protobuf.Duration)",
    "int(null + duration('1s')) == 1",
    f"{ATTRIBUTE}[1.5] == 1",
    f"{ATTRIBUTE}[[device.driver]] == 1",
    f"{ATTRIBUTE}[optional.of(1)] == 1",
    "cel.bind(math, 'a', math.startsWith('a'))",
    "[1].exists(optional, optional.of(1).hasValue())",
    "kubernetes.DRADevice{} == device",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_kubernetes_accepts_is_accepted(text: str) -> None:
    checked(text)


def test_types_that_grow_exponentially_are_refused_in_time() -> None:
    bound = "".join(f"cel.bind(a{i + 1}, {{a{i}: a{i}}}, " for i in range(200))
    text = f"cel.bind(a0, 1, {bound}true{')' * 201}"
    assert "too long to be written out" in refusal(text).message


@pytest.mark.parametrize("depth", [100, 249])
def test_nested_lists_are_no_danger(depth: int) -> None:
    checked("[" * depth + "]" * depth + " == dyn(1)")


# --- All known cases --------------------------------------------------------------------------------------------------

EVALUATED_ON_COMPILATION: Final = {
    'int("0x2a") == 42',
    'int("4.2") == 4',
    'int("a") == 1',
    "uint(-1) == 1u",
    'int(" 1") == 1',
    'device.attributes["gpu.nvidia.com"].productName.matches("[")',
    '"x".matches("a{1001}")',
    '"x".matches("x*+")',
    '"x".matches("(?#c)x")',
    'device.attributes["gpu.nvidia.com"].productName.find("[") == ""',
    'duration("1x") == duration("1h")',
    'timestamp("x") == timestamp("y")',
}
"""Refused not for their types but because Kubernetes evaluates conversions and reads patterns when it compiles."""
RANDOM_EVALUATED_ON_COMPILATION: Final = {"fuzz11/47104", "fuzz12/5954", "fuzz12/9539", "fuzz11/1427", "fuzz11/23227"}


def authored() -> Iterator[tuple[str, int, str]]:
    for case in json.loads((DATA / "cel-authored.json").read_text())["cases"]:
        for version, outcome in case["byVersion"].items():
            if version != "head":
                yield case["expression"], int(version.removeprefix("1")), outcome


def checked_or_refused(text: str, minor: int = NEWEST) -> Checked | CompileError:
    try:
        return checked(text, minor)
    except CompileError as refused:
        return refused


def is_refused(text: str, minor: int) -> bool:
    return isinstance(checked_or_refused(text, minor), CompileError)


@pytest.mark.parametrize("minor", [34, 35, 36, 37])
def test_the_authored_cases_are_refused_as_kubernetes_refuses_them(minor: int) -> None:
    cases = {text: outcome == "compile-error" for text, version, outcome in authored() if version == minor}
    wrong = {text for text, refused in cases.items() if is_refused(text, minor) != refused}
    assert wrong == EVALUATED_ON_COMPILATION
    assert len(cases) > 480


def test_the_random_cases_are_refused_as_kubernetes_refuses_them() -> None:
    cases: list[dict[str, Any]] = json.loads((DATA / "cel-random.json").read_text())["cases"]
    refused = {case["id"] for case in cases if is_refused(case["expression"], NEWEST)}
    expected = {case["id"] for case in cases if case["expect"] == "compile-error"}
    assert expected - refused == RANDOM_EVALUATED_ON_COMPILATION
    assert refused <= expected


_PARTS = st.sampled_from([
    "device.driver", ATTRIBUTE, "device.capacity.d.m", "1", "1u", "1.5", "'a'", "b'a'", "true", "null", "[]", "{}", "x",
    "[1]", "{'a': 1}", "int", "optional.of(1)", "duration('1s')", "[{}].map(x, x)", "[[], {}]", "type(x)", "dyn(x)",
])  # fmt: skip
_JOINTS = st.sampled_from([
    "{} + {}", "{} == {}", "{} < {}", "{} in {}", "[{}, {}]", "{{{}: {}}}", "{}[{}]", "{}.all(x, {})", "{}.map(x, {})",
    "true ? {} : {}", "cel.bind(x, {}, {})", "{}.orValue({})", "{}.optMap(x, {})", "{} && {}", "{}.indexOf({})",
])  # fmt: skip


@given(
    st.recursive(_PARTS, lambda parts: st.builds(str.format, _JOINTS, parts.map("({})".format), parts), max_leaves=8)
)
def test_whatever_the_types_there_is_an_answer_and_every_part_has_one(text: str) -> None:
    outcome = checked_or_refused(text)
    if isinstance(outcome, CompileError):
        assert 0 <= outcome.offset < len(text)
    else:
        assert not any(type_.is_open or type_.name == "!error!" for type_ in outcome.types.values())
