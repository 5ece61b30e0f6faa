"""Functions by the ids of their overloads, and those of lists, sets and messages."""

import math
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.declarations import declarations
from gpusharing.cel.declarations.types import BOOL, DYN, INT, STRING, list_of, map_of, optional_of, parameter
from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.runtime import listing, messages, optionals
from gpusharing.cel.runtime.dispatch import accepts
from gpusharing.cel.runtime.overloads import BY_FUNCTION, implementations
from gpusharing.cel.runtime.sorting import sorted_indices
from gpusharing.cel.tree import (
    AND,
    CONDITIONAL,
    EQUALS,
    INDEX,
    NOT_EQUALS,
    NOT_STRICTLY_FALSE,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    OR,
)
from gpusharing.cel.values import semver
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional
from gpusharing.cel.values.timestamps import Timestamp

WRITTEN_OUT: Final = frozenset((
    AND, OR, CONDITIONAL, EQUALS, NOT_EQUALS, INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT, NOT_STRICTLY_FALSE, "or",
    "orValue", "cel.@mapInsert",
))  # fmt: skip
"""Functions that the generator knows itself."""
OF_AUTHORIZATION: Final = frozenset((
    "path", "group", "serviceAccount", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector",
    "check", "allowed", "reason", "error", "errored",
))  # fmt: skip
"""Declared by Kubernetes, but there is no variable to call them on."""
VERSION: Final = semver.parse("1.2.3")


@pytest.mark.parametrize("minor", [34, 35, 36, 37])
def test_every_declared_overload_has_an_implementation(minor: int) -> None:
    missing = {
        overload.id
        for name, function in declarations(minor).functions.items()
        if name not in WRITTEN_OUT | OF_AUTHORIZATION | BY_FUNCTION.keys()
        for overload in (*function.members, *function.globals)
        if overload.id not in implementations(minor)
    }
    assert missing == set()


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (INT, 1, True), (INT, Uint(1), False), (INT, True, False), (BOOL, 1, False), (DYN, object(), True),
        (parameter("A"), None, True), (list_of(INT), [], True), (list_of(INT), [1, "a"], True),
        (list_of(INT), ["a", 1], False), (list_of(parameter("A")), ["a"], True), (list_of(INT), "ab", False),
        (map_of(STRING, INT), {}, True), (map_of(STRING, INT), {"a": 1}, True),
        (map_of(STRING, INT), {"a": "b"}, False), (map_of(INT, INT), {"a": 1}, False),
        (optional_of(INT), Optional("a"), True), (optional_of(INT), 1, False),
    ],
)  # fmt: skip
def test_of_a_list_only_the_first_item_is_looked_at(kind: Any, value: Any, expected: bool) -> None:
    assert accepts(kind, value) is expected


@pytest.mark.parametrize("minor", [36, 37])
def test_the_last_index_of_text_is_found_as_in_go(minor: int) -> None:
    last_index_of = implementations(minor)["string_last_index_of_string"]
    assert last_index_of("banana", "an") == 3
    assert last_index_of("banana", "") == 6
    assert last_index_of("", "a") == -1
    assert last_index_of("é", "é") == 0


# --- Lists ------------------------------------------------------------------------------------------------------------

GO_SORTED: Final = {
    20: "0,1,13,14,15,16,17,18,19,2,3,4,5,6,7,8,9,10,11,12",
}


@given(st.lists(st.integers(0, 20), max_size=120))
def test_sorting_gives_the_items_in_order(keys: list[int]) -> None:
    indices = sorted_indices(len(keys), lambda one, other: keys[one] < keys[other])
    assert sorted(indices) == list(range(len(keys)))
    assert [keys[index] for index in indices] == sorted(keys)


@given(st.lists(st.integers(0, 5), max_size=12))
def test_short_lists_are_sorted_stably(keys: list[int]) -> None:
    indices = sorted_indices(len(keys), lambda one, other: keys[one] < keys[other])
    assert indices == sorted(range(len(keys)), key=keys.__getitem__)


@pytest.mark.parametrize("length", [13, 49, 50, 51, 200, 700])
def test_long_lists_of_all_shapes_are_sorted(length: int) -> None:
    random = Random(length)  # noqa: S311 (the same lists in every run)
    shapes = [
        list(range(length)),
        list(range(length, 0, -1)),
        [0] * length,
        [index % 7 for index in range(length)],
        [random.randrange(length) for _ in range(length)],
        [*range(length - 3), 2, 1, 0],
    ]
    for keys in shapes:
        indices = sorted_indices(len(keys), lambda one, other: keys[one] < keys[other])  # noqa: B023 (used at once)
        assert [keys[index] for index in indices] == sorted(keys)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: listing.is_sorted([1, 2, 2]), True),
        (lambda: listing.is_sorted([2, 1, VERSION]), False),
        (lambda: listing.is_sorted([1, VERSION]), EvaluationError),
        (lambda: listing.is_sorted([math.nan, 1.0]), True),
        (lambda: listing.smallest([2, 1, "a"]), 1),
        (lambda: listing.smallest([2, VERSION]), EvaluationError),
        (lambda: listing.largest([1.0, math.nan, 2.0]), 2.0),
        (lambda: listing.largest([]), EvaluationError),
        (lambda: listing.sum_from(0)([]), 0),
        (lambda: listing.sum_from(0)([1, "a"]), EvaluationError),
        (lambda: listing.sum_from(Uint(0))([Uint(1), Uint(2)]), 3),
        (lambda: listing.index_of(["a", "b", "b"], "b"), 1),
        (lambda: listing.index_of([1, 2.0], 2), 1),
        (lambda: listing.last_index_of([1, 1.0, 2], 1), 1),
        (lambda: listing.index_of([VERSION], "a"), -1),
        (lambda: listing.has_or_is([1, 2], 2.0, None), True),
        (lambda: listing.has_or_is("a", "a", None), True),
        (lambda: listing.has_or_is(VERSION, "a", None), False),
        (lambda: listing.has_or_is(list(range(49)), 50, 48), EvaluationError),
        (lambda: listing.has_or_is(list(range(49)), 3, 48), True),
        (lambda: listing.part([1, 2, 3], 1, 3), [2, 3]),
        (lambda: listing.part([1, 2, 3], 2, 1), EvaluationError),
        (lambda: listing.part([1, 2, 3], -1, 1), EvaluationError),
        (lambda: listing.part([1, 2, 3], 0, 4), EvaluationError),
        (lambda: listing.flatten([1, [2, [3, [4]]]], 0), [1, [2, [3, [4]]]]),
        (lambda: listing.flatten([1, [2, [3, [4]]]], 2), [1, 2, 3, [4]]),
        (lambda: listing.flatten([1, [2]], -1), EvaluationError),
        (lambda: listing.flatten_once([[], [[1]], [2]]), [[1], 2]),
        (lambda: listing.sort([3, 1, 2]), [1, 2, 3]),
        (lambda: listing.sort([3, 1.0]), EvaluationError),
        (lambda: listing.sort([VERSION]), EvaluationError),
        (lambda: listing.sort("abc"), EvaluationError),
        (lambda: listing.sort_by_keys(["a", "b"], [2, 1]), ["b", "a"]),
        (lambda: listing.distinct([1, 1.0, "a", "a", True]), [1, "a", True]),
        (lambda: listing.reverse([1, 2]), [2, 1]),
        (lambda: listing.number_range(3), [0, 1, 2]),
        (lambda: listing.number_range(-1), EvaluationError),
        (lambda: listing.number_range(1_000_001), EvaluationError),
        (lambda: listing.unlimited_range(-1), []),
        (lambda: listing.unlimited_range(1_000_001), BudgetError),
        (lambda: listing.contains_all([1, 2], [1.0]), True),
        (lambda: listing.contains_all([1, 2], [3]), False),
        (lambda: listing.contain_each_other([1, 2], [2, 1, 1]), True),
        (lambda: listing.intersect([1, 2], [2.0, 3]), True),
        (lambda: listing.intersect([], [1]), False),
        (lambda: optionals.first([]), NONE),
        (lambda: optionals.last([1, 2]), Optional(2)),
        (lambda: optionals.unwrap([Optional(1), NONE]), [1]),
        (lambda: optionals.unwrap([1]), EvaluationError),
    ],
)
def test_functions_of_lists(call: Any, expected: Any) -> None:
    if isinstance(expected, type):
        with pytest.raises(expected):
            call()
    else:
        assert call() == expected


def test_lists_deeper_than_pythons_calls_can_be_flattened() -> None:
    deep: list[Any] = [1]
    for _ in range(5000):
        deep = [deep]
    assert listing.flatten(deep, 10_000) == [1]


@pytest.mark.parametrize(
    ("value", "is_zero"),
    [
        (0, True), (1, False), (Uint(0), True), (0.0, True), ("", True), ("a", False), (b"", True), (False, True),
        (True, False), (None, True), ([], True), ([0], False), ({}, True), (Duration(0), True), (Timestamp(0), False),
        (Timestamp(-62_135_596_800), True), (VERSION, False), (NONE, False),
    ],
)  # fmt: skip
def test_zero_values_make_no_optional(value: Any, is_zero: bool) -> None:
    assert (optionals.of_non_zero(value) is NONE) is is_zero


# --- Messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("Int64Value", {}, 0), ("Int64Value", {"value": Optional(3)}, 3),
        ("Int64Value", {"value": "a"}, EvaluationError), ("Int32Value", {"value": 2**31}, EvaluationError),
        ("UInt32Value", {"value": Uint(5)}, Uint(5)), ("UInt32Value", {"value": Uint(2**32)}, EvaluationError),
        ("FloatValue", {"value": 0.5}, 0.5),
        ("DoubleValue", {"value": 1}, EvaluationError), ("StringValue", {"value": "a"}, "a"), ("BoolValue", {}, False),
        ("BytesValue", {"value": b"a"}, b"a"), ("Value", {}, None), ("Value", {"null_value": 0}, None),
        ("Value", {"list_value": [1, Uint(2), None, b"ab"]}, [1.0, 2.0, None, "YWI="]),
        ("Value", {"list_value": [2**53]}, [str(2**53)]), ("Value", {"list_value": [Duration(90 * 10**9)]}, ["90s"]),
        ("Value", {"struct_value": {1: 2}}, EvaluationError), ("ListValue", {}, []), ("Struct", {}, {}),
        ("Struct", {"fields": {"a": [1]}}, {"a": [1.0]}), ("Any", {"type_url": "a"}, EvaluationError),
        ("NoSuchThing", {}, EvaluationError),
    ],
)  # fmt: skip
def test_messages_are_values_of_other_types(name: str, fields: dict[str, Any], expected: Any) -> None:
    make = messages.maker(f"google.protobuf.{name}", tuple(fields), frozenset())
    if expected is EvaluationError:
        with pytest.raises(EvaluationError):
            make(*fields.values())
    else:
        assert make(*fields.values()) == expected


def test_times_in_messages_are_not_limited_to_cels_years() -> None:
    timestamp = messages.maker("google.protobuf.Timestamp", ("seconds", "nanos"), frozenset())
    assert timestamp(0, -1).unix == -1
    assert timestamp(0, -1).nanoseconds == 999_999_999
    assert timestamp(99_999_999_999_999, 0).year() > 9999
    duration = messages.maker("google.protobuf.Duration", ("seconds",), frozenset())
    assert duration(2**62).nanoseconds == 2**63 - 1


def test_optional_fields_may_be_absent() -> None:
    make = messages.maker("google.protobuf.Int64Value", ("value",), frozenset((0,)))
    assert make(NONE) == 0
    assert make(Optional(4)) == 4
    with pytest.raises(EvaluationError, match="non-optional"):
        make(4)
