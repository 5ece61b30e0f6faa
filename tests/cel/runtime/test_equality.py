"""What is equal to what, as cel-go sees it."""

import math
from typing import Any

import pytest
from hypothesis import given

from cel.values_at_random import LARGEST, NAN, QUANTITY, SMALLEST, VERSION, values
from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.runtime import equality, literals
from gpusharing.cel.runtime.lists import JoinedList
from gpusharing.cel.runtime.maps import AttributeMap, DomainMap
from gpusharing.cel.values import quantity, semver
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.network import parse_ip
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.type_values import TypeValue


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1, True), (1, Uint(1), True), (1, 1.0, True), (Uint(1), 1.0, True), (1, 1.5, False),
        (1, True, False), (True, 1, False), (0, False, False), (1, "1", False), ("1", 1, False), ("a", "a", True),
        (-1, Uint(2**64 - 1), False), (LARGEST, float(2**63), True), (SMALLEST, -(2.0**63), True),
        (2**53 + 1, 2.0**53, True), (Uint(2**64 - 1), 2.0**64, True), (1, math.inf, False),
        (NAN, NAN, False), (1, NAN, False), (0.0, -0.0, True),
        (b"a", b"a", True), (b"a", "a", False), (None, None, True), (None, 0, False), (VERSION, None, False),
        (Duration(1), Duration(1), True), (Duration(1), 1, False), (Timestamp(1), Timestamp(1, 0, 3600), True),
        (TypeValue("int"), TypeValue("int"), True), (TypeValue("int"), "int", False),
        (VERSION, semver.parse("1.2.3+build"), True), (VERSION, "1.2.3", None), ("1.2.3", VERSION, False),
        (QUANTITY, quantity.parse("80Gi"), True), (QUANTITY, 1, None), (1, QUANTITY, False),
        (QUANTITY, QUANTITY.add(quantity.parse("0")), None), (QUANTITY.add(quantity.parse("0")), QUANTITY, True),
        (parse_ip("::1"), parse_ip("::1"), True), (parse_ip("::1"), "::1", None),
        ([1, 2], [1.0, Uint(2)], True), ([1], [1, 2], False), ([1], "1", False), ([], {}, False),
        ([VERSION], ["a"], True), (JoinedList([VERSION, VERSION]), ["a", "b"], None),
        (JoinedList([VERSION, 1]), ["a", 2], False), (["a"], [VERSION], False),
        ({"a": 1}, {"a": 1.0}, True), ({"a": 1}, {"b": 1}, False), ({"a": VERSION}, {"a": "x"}, True),
        ({1: "a"}, literals.entries([literals.entry(1.0, "a")]), False),
        (literals.entries([literals.entry(1.0, "a")]), {1: "a"}, True),
        (Optional(1), Optional(1.0), True), (Optional(1), NONE, False), (NONE, NONE, True), (Optional(1), 1, False),
        (Optional(VERSION), Optional("a"), None), (Optional(VERSION), Optional(None), None),
        ({"nope": {}}, DomainMap(some=AttributeMap()), True),
    ],
)  # fmt: skip
def test_the_left_side_says_whether_values_are_equal(left: Any, right: Any, expected: bool | None) -> None:
    assert equality.compare(left, right) is expected
    assert equality.unequal(left, right) is (expected is not True)
    if expected is None:
        with pytest.raises(EvaluationError, match="no such overload"):
            equality.equal(left, right)
    else:
        assert equality.equal(left, right) is expected


@given(values, values)
def test_equality_is_the_same_from_both_sides(one: Any, other: Any) -> None:
    assert equality.compare(one, other) == equality.compare(other, one)


def has_nan(value: Any) -> bool:
    match value:
        case float():
            return math.isnan(value)
        case list():
            return any(map(has_nan, value))
        case dict():
            return any(map(has_nan, value.values()))
        case Optional():
            return has_nan(value.value)
    return False


@given(values)
def test_all_values_but_nan_equal_themselves(value: Any) -> None:
    assert equality.compare(value, value) is (not has_nan(value))


def test_comparing_a_list_that_contains_itself_a_million_times_is_given_up() -> None:
    shared: list[Any] = [1, "a"]
    for _ in range(40):
        shared = [shared, shared]
    with pytest.raises(BudgetError):
        equality.equal(shared, shared)
