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
_DEVICE = {"driver": "gpu.nvidia.com"}


@pytest.mark.parametrize("minor", [36, 37])
@pytest.mark.parametrize("expressions", [pytest.param(_SIGNS, id="signs"), pytest.param(_NULLABLE, id="nullable")])
def test_kubernetes_says_the_same_now(expressions: tuple[str, ...], minor: int) -> None:
    with Comparison(minor) as comparison:
        pairs = list(comparison.verdicts([(expression, [_DEVICE]) for expression in expressions]))
    told = {
        expression: (what, ours, theirs)
        for expression, ((ours, theirs),) in zip(expressions, pairs, strict=True)
        if (what := difference(ours, theirs))
    }
    assert told == {}
    assert {theirs.outcome for ((_, theirs),) in pairs} >= {"match", "no-match"}
