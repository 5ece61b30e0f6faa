"""Expressions on which we have differed from kube-scheduler once, each asked of both."""

import pytest

from cel.comparison import Comparison, difference

pytestmark = pytest.mark.cluster

_SIGNS = (
    "-1.includes(-1)", "- 1.includes(1)", "--1.includes(1)", "---1 .includes(1)", "-1[0] == 1", "-1.0.includes(-1.0)",
    "-1u.includes(1u)", "-9223372036854775808.includes(1)", "--9223372036854775808 == 1", "!-1.includes(1)",
    "!!-1.includes(1)", "3-1.includes(1)", "3 - -1.includes(1)", "3--1 == 4", "3---1 == 2", "3-1 == 2",
    "[-1.includes(-1)] == [true]", "-1.includes(-1) ? -1 == 1 : true", "-0x1.includes(-1)", "-1.?foo.orValue(1) == 1",
    "-1 .x == 1", "-1{} == 2", "-(1).includes(1)", "-dyn(1).includes(1)", "-.5.includes(-.5)", "- // a\n 1 in [-1]",
    "[1][0]-1 == 0", "{'a': 1}['a']-1 == 0", "true-1 == 0", "'a'-1 == 0", "{1: -1}[1] in [-1]", "-1 in [-1]", "1-",
    "-", "--", "3 -- 1 == 4", "[-1, - 1, --1].size() == 3",
)  # fmt: skip
_NULLABLE = tuple(
    f"google.protobuf.StringValue{{}}.{call}"
    for call in (
        "lastIndexOf('') == -1", "indexOf('') == -1", "indexOf('a', 0) == -1", "includes('')", "split('') == []",
        "replace('a', 'b') == ''", "contains('a')", "matches('a')", "upperAscii() == ''", "size() == 0",
        "lastIndexOf(google.protobuf.StringValue{}) == 0", "lastIndexOf(device.driver) == -1",
    )
)  # fmt: skip
_PARTS_OF_LISTS_AND_MAPS = (
    "[?dyn(1), device.driver].size() == 2", "[?optional.of(1), device.driver, ?optional.none()].size() == 2",
    '"%s".format([[?device.attributes["d"].i, device.driver]]) == ""',
    '"%s".format([[?device.attributes["d"].i, {}.a]]) == ""',
    '{?"a": dyn(1), "b": device.driver}.size() == 2', '{"a": 1, ?device.driver: optional.of(2), "b": 3}.size() == 3',
    '{"a": 1, ?"a": optional.none(), "b": 3}.size() == 1',
    'sets.contains({semver("1.0.0"): 1, device.attributes["d"].x: [1]}[0], []) && false',
    'sets.contains({?semver("1.0.0"): optional.none(), device.attributes["d"].x: [1]}[0], []) && false',
    'sets.contains({?semver("1.0.0"): 1, device.attributes["d"].x: [1]}[0], []) && false',
)  # fmt: skip
# Messages may have seconds that are no timestamp.
_FAR_MOMENTS = tuple(
    f"'%s'.format([google.protobuf.Timestamp{{seconds: {seconds}}}]) == '{text}'"
    for seconds, text in (
        ("-9223372036854775807 - 1", "292277026596-12-04T15:30:08Z"), ("-9223372036854775807", "x"),
        ("9223372036854775807", "292277026596-12-04T15:30:07Z"), ("9223372036854775806", "x"),
        ("-9223372028741760001", "292277026854-01-07T07:00:15Z"),
        ("-9223372028741760000", "-292277022400-03-01T00:00:00Z"),
        ("-9223372028741759999", "-292277022400-03-01T00:00:01Z"),
        ("-62135596801", "0000-12-31T23:59:59Z"), ("253402300800", "10000-01-01T00:00:00Z"),
    )
)  # fmt: skip
# Before Kubernetes 1.37 a negative depth has a negative price.
_NEGATIVE_PRICES = tuple(
    f"{list(range(size))}.map(a, {inner}).flatten({depth}) == []{rest}"
    for size in (0, 1, 4, 5, 12, 40)
    for inner in ("[]", "a", "[a]")
    for depth in ("-1", "-2", "-3", "-1000", "-9223372036854775807", "1")
    for rest in ("", " || true", " || [1, 2, 3].all(b, b > 0)")
)
# What is repeated no times counts for nothing in Go, but has to be right by itself.
_ABSENT = tuple(
    f"'{text}'.matches('{pattern}')"
    for text in ("", "ab", "-")
    for pattern in (
        "((s{3}){0}){1000}-", "((s{3}){0,0}){1000}-", "((s{3}){0}?){1000}-", "((s{3}){0,}){1000}",
        "((s{3}){0,1}){1000}",
        "((s{1000}){2}){0}", "(((s{3}){0}){1000}){0}", "([a]{0}b{3}){1000}", "((?:s{3}){0}a){1000}",
        "((s{3}){0}{2}){1000}",
        "((s{3}){0}*){1000}", "((s{3}){0}+){1000}", "((?i){0}s{3}){1000}", "((s{3}|b){0}){1000}", "(s{3}|{0}){1000}",
        "((?P<n>s{3}){0}(?P<n>a)){1000}", "(\\\\{0}s{2}){600}", "([}]{0}(s{2}){0}){1000}", "((s**){0}){1000}",
        "((\\\\Qa(\\\\E{0}){0}s{2}){600}", "((\\\\pL{3}){0}){1000}", "((s{3}){00}){1000}", "(){0}(s{3}){400}",
    )
)  # fmt: skip
_LARGE_PATTERNS = (
    "matches(device.attributes['d'].x, '(\\x28\\u005cp{Greek})){1000}')", 'device.driver.matches("(\\pL){100}")',
    'device.attributes["d"].x.matches("((\\p{L}{100}))")', '"" in device.attributes["d"].x.findAll("\\pL{100}")',
    '"a".matches("b")',
)  # fmt: skip
_TYPES_OF_KUBERNETES = (
    "format.date() == [optional.of(2).optMap(f, format.byte()).orValue({}.a)][0]",
    "optional.of(2).optMap(f, format.byte()).value() == format.byte()",
    'optional.of(2).optMap(f, ip("1.2.3.4")).value() == ip("1.2.3.4")',
    'string(device.attributes.map(c, google.protobuf.BytesValue{}).min()) == ""',
    'string({"": 7}.map(m, google.protobuf.StringValue{}).max()) == ""',
    'quantity(dyn(timestamp(0))).isLessThan(quantity(""))',
)  # fmt: skip
_BYTES_OF_LISTS = tuple(
    f"google.protobuf.BytesValue{{value: dyn({value})}} == {content}"
    for value in (
        "[]", "[65u]", "[255u]", "[256u]", "[65]", "[65u, 66]", "[b'']", "[optional.of(65u)]", "[[optional.of(65u)]]",
        "optional.of([65u])", "[65u] + []", "''.split('')", "{}", "null", "device.attributes['d'].x",
    )
    for content in ("b''", "b'A'")
)  # fmt: skip
# The checker takes these keys for strings.
_KEYS_THAT_ARE_NONE = (
    '[[7].transformMapEntry(v, t, {dyn(b"").orValue(""): v})].size() == 1', '{dyn([]).orValue(""): 1}.size() == 1',
    '{dyn(1u).orValue(""): 1, 1: 2}.size() == 1', "{dyn(1.0).orValue(0): 1}[1] == 1",
    '{dyn("a").orValue(""): 1}["a"] == 1',
)  # fmt: skip
_TAGS = "device.attributes['d'].tags"
_LISTS_AS_KEYS = (
    f"[{_TAGS}].exists(v, v.transformMapEntry(i, w, {{v: v}}).a)",
    f"[{_TAGS}].exists(v, v in {{v: 1}})", f"{_TAGS} in {{{_TAGS}: 1}}",
    f"[{_TAGS}].exists(v, {_TAGS} in {{v: 1}})", f"[{_TAGS}].exists(v, v in {{{_TAGS}: 1}})",
    f"[{_TAGS}].exists(v, [v].exists(w, w in {{v: 1}}))", f"cel.bind(v, {_TAGS}, v in {{v: 1}})",
    f"[[{_TAGS}]].exists(v, v[0] in {{v[0]: 1}})", f"{{{_TAGS}: 1, {_TAGS}: 2}}.size() == 2",
    f"[{_TAGS}].exists(v, {{v: 1}} == {{v: 1}})", f"{{{_TAGS}: 1}} == {{{_TAGS}: 1}}",
    f"[1, 2].transformMapEntry(i, w, {{dyn({_TAGS}): w}}).size() == 2",
    "[dyn([1])].exists(v, v in {v: 1})", "dyn([1]) in {dyn([1]): 1}",
    "[1, 2].transformMapEntry(i, w, {dyn([3]): w}).size() == 2",
)  # fmt: skip
_PRESENCE = tuple(
    f"has(({condition} ? {one} : {other}).{field})"
    for condition in ('device.driver == "x"', 'device.driver != "x"')
    for one in ('optional.of({"a": 8u})', "optional.none()", '{1u: {"a": 8u}}[?1u]')
    for other in ('{2u: {"a": 16u}}[?2u]', '{7u: {"a": 16u}}[?2u]', 'optional.of({"b": 1u})')
    for field in ("a", "b", "a.b")
)
_PATTERNS_THAT_ARE_NONE = tuple(
    f"{subject}.{function}(dyn({pattern})){end}"
    for subject in ("device.attributes[device.driver].nope", "device.driver")
    for function, end in (("matches", ""), ("find", ' == ""'), ("findAll", ".size() == 0"))
    for pattern in ("3", 'b"a"', "[]", '"a"', "dyn(1.5)", "device.driver")
)
_VARIABLES_IN_VARIABLES = tuple(
    f'cel.bind(a, cel.bind(b, "", [optional.of(b).optMap(c, {inner})]), {use})'
    for inner in ("c", "b + c", "cel.bind(e, b, optional.of(e).optMap(f, f + b))")
    for use in ("a.size() + a.size() == 2", "a.sortBy(x, [][3]) == a", "a.map(x, [x, a]).size() == 1", "true")
)
_NULLABLE_INSIDE = tuple(
    f"[{', '.join(order)}].size() == 2"
    for one, other in (
        ('{"": google.protobuf.UInt64Value{}}', '{"": 0u}'), ("{google.protobuf.UInt64Value{}: 1}", "{1u: 2}"),
        ("[google.protobuf.StringValue{}]", '["a"]'),
        ("optional.of(google.protobuf.StringValue{})", 'optional.of("a")'),
        ("[[google.protobuf.Int64Value{}]]", "[[1]]"), ("[google.protobuf.Int64Value{}]", "[1u]"),
        ("[google.protobuf.Int64Value{}]", "[null]"), ("{'a': google.protobuf.BoolValue{}}", "{'a': [true][0]}"),
    )
    for order in ((one, other), (other, one))
)  # fmt: skip
_DEVICE = {"driver": "gpu.nvidia.com", "attributes": {"d/i": {"int": 3}, "d/tags": {"strings": ["a", "b"]}}}


@pytest.mark.parametrize("minor", [36, 37])
@pytest.mark.parametrize(
    "expressions",
    [
        pytest.param(_SIGNS, id="signs"),
        pytest.param(_NULLABLE, id="nullable"),
        pytest.param(_PARTS_OF_LISTS_AND_MAPS, id="parts of lists and maps"),
        pytest.param(_LARGE_PATTERNS, id="large patterns"),
        pytest.param(_FAR_MOMENTS, id="far moments"),
        pytest.param(_NEGATIVE_PRICES, id="negative prices"),
        pytest.param(_ABSENT, id="repeated no times"),
        pytest.param(_TYPES_OF_KUBERNETES, id="types of Kubernetes"),
        pytest.param(_PRESENCE, id="presence"),
        pytest.param(_BYTES_OF_LISTS, id="bytes of lists"),
        pytest.param(_KEYS_THAT_ARE_NONE, id="keys that are none"),
        pytest.param(_LISTS_AS_KEYS, id="lists as keys"),
        pytest.param(_NULLABLE_INSIDE, id="nullable inside"),
        pytest.param(_PATTERNS_THAT_ARE_NONE, id="patterns that are none"),
        pytest.param(_VARIABLES_IN_VARIABLES, id="variables in variables"),
    ],
)
def test_kubernetes_says_the_same_now(expressions: tuple[str, ...], minor: int) -> None:
    with Comparison(minor) as comparison:
        pairs = list(comparison.verdicts([(expression, [_DEVICE]) for expression in expressions]))
    told = {
        expression: (what, ours, theirs)
        for expression, ((ours, theirs),) in zip(expressions, pairs, strict=True)
        if (what := difference(ours, theirs))
    }
    assert told == {}
    assert len({theirs.outcome for ((_, theirs),) in pairs}) > 1
