"""What is found in a map."""

from typing import Any

import pytest

from cel.values_at_random import LARGEST, NAN, QUANTITY, SMALLEST, VERSION
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import literals, maps, membership
from gpusharing.cel.runtime.faults import Breakdown
from gpusharing.cel.runtime.maps import AttributeMap, CapacityMap
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import Optional


def test_equal_numbers_of_different_types_are_different_keys() -> None:
    entries = [literals.entry(key, number) for number, key in enumerate([1, Uint(1), 1.0, True, NAN, NAN])]
    mapping = literals.entries(entries)
    assert len(mapping) == 6
    assert [maps.find(mapping, key) for key in (1, Uint(1), 1.0, True)] == [0, 1, 2, 3]
    assert maps.find(mapping, NAN) is maps.MISSING
    assert [type(key) for key in maps.keys(mapping)] == [int, Uint, float, bool, float, float]


@pytest.mark.parametrize(
    ("key", "wanted", "found"),
    [
        (1, Uint(1), True), (1, 1.0, True), (Uint(1), 1, True), (Uint(1), 1.0, True), (1.0, 1, False), (1, True, False),
        (True, 1, False), (1, 1.5, False), (1, "1", False), (-1, -1.0, True), (Uint(2**63), float(2**63), True),
        (SMALLEST, -(2.0**63), False), (LARGEST, float(2**63), False), ("a", "a", True), (None, None, True),
        (Duration(5), Duration(5), True), ([1], [1], False),
    ],
)  # fmt: skip
def test_numbers_are_found_across_types_though_not_in_all_directions(key: Any, wanted: Any, found: bool) -> None:
    mapping = literals.entries([literals.entry(key, "value")])
    assert (maps.find(mapping, wanted) is not maps.MISSING) is found
    assert maps.contains(mapping, wanted) is found
    assert membership.is_in(wanted, mapping) is found


@pytest.mark.parametrize("key", [b"a", VERSION])
def test_what_go_cannot_hash_breaks_the_evaluation_down(key: Any) -> None:
    with pytest.raises(Breakdown):
        literals.entry(key, 1)
    with pytest.raises(Breakdown):
        maps.find({"a": 1}, key)
    with pytest.raises(Breakdown):
        membership.is_member(key, frozenset(("a",)))
    assert maps.find({}, key) is maps.MISSING


def test_a_map_of_capacities_takes_an_optional_string_for_a_string() -> None:
    assert maps.find(CapacityMap(memory=QUANTITY), Optional(Optional("memory"))) is QUANTITY
    assert maps.find(AttributeMap(memory=1), Optional("memory")) is maps.MISSING


def test_inserting_an_equal_key_is_an_error() -> None:
    mapping: dict[Any, Any] = {}
    maps.insert(mapping, 1, "a")
    for key in (1, Uint(1), 1.0):
        with pytest.raises(EvaluationError, match="already exists"):
            maps.insert(mapping, key, "b")
    maps.insert(mapping, True, "b")
    assert len(mapping) == 2
