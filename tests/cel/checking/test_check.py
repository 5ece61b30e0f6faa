"""The checker accepts what Kubernetes' checker accepts, finds the same types, and says what is wrong with the rest."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cel.shapes import nodes
from gpusharing.cel.checking.check import check
from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.parse import parse
from gpusharing.cel.tree import Call

NEWEST: Final = 37
DATA: Final = Path(__file__).parents[1] / "data"


def checked(text: str, minor: int = NEWEST) -> Checked:
    return check(parse(text, minor), text, minor)


def refusal(text: str, minor: int = NEWEST) -> CompileError:
    with pytest.raises(CompileError) as refused:
        checked(text, minor)
    return refused.value


# --- Types ------------------------------------------------------------------------------------------------------------

ATTRIBUTE = 'device.attributes["d"].a'
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


OVERLOADS = [
    ("1 < 2", ("less_int64",)),
    ("1 < 2.0", ("less_int64_double",)),
    ("dyn(1) < 2.0", ("less_int64_double", "less_uint64_double", "less_double")),
    ("'a' in ['a']", ("in_list",)),
    ("'a' in dyn(1)", ("in_list", "in_map")),
    ("true && true", ("logical_and",)),
    (f"{ATTRIBUTE}.?a == optional.none()", ("equals",)),
    (f"{ATTRIBUTE}.isGreaterThan({ATTRIBUTE})", ("quantity_is_greater_than", "semver_is_greater_than")),
    ("matches('a', 'b')", ("matches",)),
    ("'a'.matches('b')", ("matches_string",)),
    ("ip.isCanonical('1.2.3.4')", ("ip_is_canonical",)),
    (f"{ATTRIBUTE}.includes(1)", ("list_includes_dyn_dyn",)),
]


@pytest.mark.parametrize(("text", "overloads"), OVERLOADS)
def test_all_overloads_that_fit_are_found(text: str, overloads: tuple[str, ...]) -> None:
    found = checked(text)
    assert found.overloads[found.root.id] == overloads


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

# Expression, what the caret stands under and what follows, the message or a part of it.
REFUSED = [
    # Amounts.
    (
        'device.capacity["gpu.nvidia.com"].memory >= "16Gi"',
        '>= "16Gi"',
        'quantity is compared so: device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("16Gi")) >= 0',
    ),
    ('"16Gi" < device.capacity.d.memory', "<", 'quantity("16Gi").compareTo(device.capacity.d.memory) < 0'),
    ("device.capacity.d.memory == 17179869184", "==", "device.capacity.d.memory.compareTo(quantity(...)) == 0"),
    ("quantity('1') < quantity('2')", "<", 'quantity("1").compareTo(quantity("2")) < 0'),
    ("quantity('1') + quantity('2') == null", "+", 'write quantity("1").add(quantity("2"))'),
    ("quantity('1').sign() == 1", "()", "quantity.sign() is not possible; there is sign(quantity)"),
    ("semver('1.0.0') >= '2.0.0'", ">=", 'semver("1.0.0").compareTo(semver("2.0.0")) >= 0'),
    # Names.
    ("devise.driver == ''", "devise", "there is no 'devise'; did you mean 'device'?"),
    ("device.drivers == ''", ".drivers", "device has no field 'drivers'; did you mean 'driver'?"),
    ("device.x == ''", ".x", "it has driver, attributes, capacity, allowMultipleAllocations"),
    ("device.driver.x == ''", ".x", "string has no fields, so no 'x' either"),
    ("has(device.driver.x)", "(device", "string has no fields"),
    ("[1].all(x, y == x)", "y ==", "there is no 'y'"),
    ("[1].all(x, x == 1) && x == 1", "x == 1", "there is no 'x'"),
    ("size == 1", "size", "there is no 'size'"),
    # Functions.
    ("math.greatest(1, 2) == 1", "(1", "math.greatest is not available in device selectors"),
    ("base64.encode(b'a') == ''", "(b", "base64.encode is not available in device selectors"),
    ("authorizer.path('/').check('get').allowed()", "('/')", "authorizer.path is not available in device selectors"),
    ("device.driver.startWith('a')", "('a')", "there is no function 'startWith'; did you mean 'startsWith'?"),
    ("[1].existsOne(x, true)", "(x", "existsOne is used so: list.exists_one(x, condition)"),
    ("[1].all(x)", "(x)", "all is used so: list.all(x, condition)"),
    ("'a'.startsWith(1)", "(1)", "string.startsWith(int) is not possible; there is string.startsWith(string)"),
    ("size(1) == 1", "(1)", "size(int) is not possible; there is bytes.size(), list(A).size()"),
    ("lists.range('a') == []", "('a')", "lists.range(string) is not possible; there is lists.range(int)"),
    # Operators.
    ("1 + 'a' == 1", "+", "'+' cannot take int and string"),
    ("1 == 1.0", "==", "'==' cannot compare int and double"),
    ("device.driver == 1", "==", "'==' cannot compare string and int"),
    ("null == 1", "==", "'==' cannot compare null and int"),
    ("!1", "!", "'!' cannot take int"),
    ("-'a' == 1", "-", "'-' cannot take string"),
    ("1 && true", "1", "'&&' takes bool on both sides, not int"),
    ("true || device.driver", ".driver", "'||' takes bool on both sides, not string"),
    ("1 ? true : false", "?", "the condition of '? :' is int, not bool"),
    ("(true ? 1 : 'a') == 1", "?", "'? :' gives int or string, which must be of one type"),
    ("'a' in 'abc'", "in 'abc'", "'in' takes a list or a map on its right, not string"),
    ("1 in ['a']", "in ['a']", "no int is in a list(string)"),
    ("[1]['a'] == 1", "['a']", "list(int) has no index of type string"),
    ("device.driver[0] == 'a'", "[0]", "string has no elements to be taken out by index"),
    # Macros.
    ("device.driver.all(x, true)", ".driver", "all goes over a list or a map, not string"),
    ("[1].all(x, 1)", "1)", "'&&' takes bool on both sides, not int"),
    ("[1].filter(x, 1) == []", "(x, 1)", "the condition of '? :' is int, not bool"),
    ("[[1]].sortBy(x, x) == []", "(x", "sortBy cannot sort by list(int)"),
    ("{1: 2}.transformMapEntry(k, v, v) == {}", "(k", "an entry of a map is expected, as in {key: value}, not int"),
    ("{1: 2}.transformMapEntry(k, v, v) == {}", "(k", "an entry of a map is expected, as in {key: value}, not int"),
    ("optional.of(1).optFlatMap(x, x).hasValue()", "(x", "'? :' gives int or optional(dyn)"),
    # Literals.
    ("[1, 'a'] == dyn(1)", "'a'", "an element of a list is string after one that is int"),
    ("[1, dyn(1)] == dyn(1)", "(1)]", "an element of a list is dyn after one that is int"),
    ("{1: 1, 'a': 1} == dyn(1)", "'a'", "a key of a map is string after one that is int"),
    ("{1: 1, 2: 'a'} == dyn(1)", "'a'", "a value of a map is string after one that is int"),
    ("[?1] == [1]", "1] ==", "must be an optional value, not int"),
    ("[?dyn(1)] == [1]", "(1)] ==", "must be known to be an optional value"),
    ("{b'a': 1} == dyn(1)", "b'a'", "bytes cannot be an index or a key"),
    # Messages.
    ("Foo{} == 1", "{", "there is no 'Foo'"),
    ("bool{} == 1", "{", "nothing can be made of the type 'bool' with braces"),
    ("google.protobuf.Int64Value{value: 'a'} == 1", "'a'", "the field 'value' is int, not string"),
    ("google.protobuf.Empty{x: 1} == dyn(1)", "{x", "google.protobuf.Empty has no field 'x'"),
    # Formats.
    ("'%d'.format(['a']) == ''", "'a']", "'%d' does not format string"),
    ("'%s'.format([quantity('1')]) == ''", "('1')", "'%s' does not format quantity"),
    ("'%s'.format([[{'a': device}]]) == ''", "device", "'%s' does not format device"),
    ("'%d%d'.format([1]) == ''", "([1]", "the format takes more values than the 1 that are given"),
    ("'%d'.format([1, 2]) == ''", "([1", "the format takes 1 values, and 2 are given"),
    ("'%q'.format([1]) == ''", "([1", "'%q' is no format"),
    ("'a%'.format([1]) == ''", "([1", "at the end is no format"),
    ("'%.f'.format([1.0]) == ''", "([1", "no precision"),
    ("'%.99999999999999999999f'.format([1.0]) == ''", "([1", "no precision"),
    # What is noticed last.
    ("1", "1", "a selector must be true or false, and this is int"),
    ("device.driver", ".driver", "this is string"),
    ("type(1) == duration", "duration", "Kubernetes knows no type 'duration' when it evaluates"),
    ("[int].exists(t, t == int)", "t ==", "Kubernetes knows no type 't' when it evaluates"),
    ("cel.bind(t, type(1), true)", "(t", "Kubernetes knows no type 't' when it evaluates"),
    (f"{ATTRIBUTE}[null] == 1", "[null]", "null cannot be an index or a key"),
    (f"{ATTRIBUTE}[?dyn([1])] == optional.none()", "[?dyn", "list(int) cannot be an index or a key"),
]


@pytest.mark.parametrize(("text", "place", "message"), REFUSED)
def test_what_is_refused_is_explained(text: str, place: str, message: str) -> None:
    refused = refusal(text)
    assert message in refused.message
    assert text[refused.offset :].startswith(place)


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


@pytest.mark.parametrize("template", ["{}", "device.{}", "1.{}()", "{}()", "'a' {}", "math.{}(1)", "{} {{}}", "1 {}"])
def test_a_message_is_short_however_long_the_name(template: str) -> None:
    assert len(refusal(template.format("a" * 9000)).message) < 200


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
