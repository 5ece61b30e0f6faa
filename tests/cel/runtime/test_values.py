"""Operators on values: equality, order, arithmetic, keys of maps."""

import math
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.runtime import arithmetic, equality, indexing, literals, maps, membership, ordering
from gpusharing.cel.runtime.faults import Breakdown
from gpusharing.cel.runtime.keys import key_of, value_of
from gpusharing.cel.runtime.lists import LONGEST, AttributeList, GrowingList, JoinedList, added
from gpusharing.cel.runtime.maps import AttributeMap, CapacityMap, DomainMap
from gpusharing.cel.values import quantity, semver
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.network import parse_ip
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.type_values import TypeValue

SMALLEST: Final = -(2**63)
LARGEST: Final = 2**63 - 1
VERSION: Final = semver.parse("1.2.3")
QUANTITY: Final = quantity.parse("80Gi")
NAN: Final = math.nan

ints: Final = st.integers(SMALLEST, LARGEST)
uints: Final = st.integers(0, 2**64 - 1).map(Uint)
numbers: Final = st.one_of(ints, uints, st.floats())
scalars: Final = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=5), st.binary(max_size=5))
values: Final = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        inner.map(Optional),
    ),
    max_leaves=8,
)


# --- Equality ---------------------------------------------------------------------------------------------------------


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


# --- Order ------------------------------------------------------------------------------------------------------------


@given(ints | uints, ints | uints)
def test_integers_are_ordered_whatever_their_signs(one: int, other: int) -> None:
    assert ordering.less(one, other) is (int(one) < int(other))
    assert ordering.greater_or_equal(one, other) is (int(one) >= int(other))


@given(numbers, numbers)
def test_numbers_of_all_types_are_ordered_unless_one_is_none(one: float, other: float) -> None:
    if math.isnan(one) or math.isnan(other):
        with pytest.raises(EvaluationError, match="NaN"):
            ordering.order(one, other)
    else:
        assert ordering.order(one, other) == -ordering.order(other, one)
        assert (ordering.order(one, other) == 0) is equality.equal(one, other)


@given(st.text(), st.text())
def test_strings_are_ordered_like_their_bytes(one: str, other: str) -> None:
    assert ordering.less(one, other) is (one.encode() < other.encode())


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, "a"), ("a", 1), (True, 1), (None, None), ([1], [2]), (VERSION, VERSION), (QUANTITY, QUANTITY), (b"a", "a")],
)
def test_other_values_have_no_order(left: Any, right: Any) -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        ordering.order(left, right)


# --- Arithmetic -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calculate", "left", "right", "expected"),
    [
        (arithmetic.add, LARGEST, 1, "integer overflow"), (arithmetic.subtract, SMALLEST, 1, "integer overflow"),
        (arithmetic.multiply, SMALLEST, -1, "integer overflow"), (arithmetic.divide, SMALLEST, -1, "integer overflow"),
        (arithmetic.modulo, SMALLEST, -1, "integer overflow"), (arithmetic.divide, 1, 0, "division by zero"),
        (arithmetic.modulo, 1, 0, "modulus by zero"), (arithmetic.divide, -7, 2, -3), (arithmetic.modulo, -7, 2, -1),
        (arithmetic.modulo, 7, -2, 1), (arithmetic.subtract, Uint(1), Uint(2), "unsigned integer overflow"),
        (arithmetic.add, Uint(2**64 - 1), Uint(1), "unsigned integer overflow"),
        (arithmetic.add, Uint(1), Uint(2), Uint(3)), (arithmetic.divide, Uint(7), Uint(2), Uint(3)),
        (arithmetic.add, 1, Uint(1), "no such overload"), (arithmetic.add, 1, 1.0, "no such overload"),
        (arithmetic.add, True, True, "no such overload"), (arithmetic.add, "a", "b", "ab"),
        (arithmetic.add, b"a", b"b", b"ab"), (arithmetic.add, [1], "a", "no such overload"),
        (arithmetic.divide, 1.0, 0.0, math.inf), (arithmetic.divide, 1.0, -0.0, -math.inf),
        (arithmetic.divide, -1.0, 0.0, -math.inf), (arithmetic.multiply, 1e308, 10.0, math.inf),
        (arithmetic.modulo, 1.0, 1.0, "no such overload"), (arithmetic.subtract, "a", "b", "no such overload"),
    ],
)  # fmt: skip
def test_calculations(calculate: Any, left: Any, right: Any, expected: Any) -> None:
    if isinstance(expected, str) and expected != "ab":
        with pytest.raises(EvaluationError, match=expected):
            calculate(left, right)
    else:
        result = calculate(left, right)
        assert result == expected
        assert type(result) is type(expected)


@given(ints, ints.filter(bool))
def test_quotient_and_remainder_belong_together(dividend: int, divisor: int) -> None:
    if (dividend, divisor) != (SMALLEST, -1):
        quotient, remainder = arithmetic.divide(dividend, divisor), arithmetic.modulo(dividend, divisor)
        assert quotient * divisor + remainder == dividend
        assert abs(remainder) < abs(divisor)
        assert remainder == 0 or (remainder < 0) == (dividend < 0)


def test_nothing_divided_by_nothing_is_no_number() -> None:
    assert math.isnan(arithmetic.divide(0.0, 0.0))
    assert math.isnan(arithmetic.divide(NAN, 0.0))


def test_durations_and_moments_can_be_calculated_with() -> None:
    hour, noon = Duration(3_600_000_000_000), Timestamp(43_200)
    assert arithmetic.add(noon, hour).unix == arithmetic.add(hour, noon).unix == 46_800
    assert arithmetic.subtract(noon, hour).unix == 39_600
    assert arithmetic.subtract(noon, arithmetic.add(noon, hour)).nanoseconds == -hour.nanoseconds
    assert arithmetic.negate(hour).nanoseconds == -hour.nanoseconds
    with pytest.raises(EvaluationError, match="no such overload"):
        arithmetic.negate(Uint(1))


# --- Lists ------------------------------------------------------------------------------------------------------------


def test_sums_of_lists_are_what_cel_go_makes_of_them() -> None:
    one, other = [1], [2]
    assert added(one, []) is one
    assert added([], other) is other
    joined = added(one, other)
    assert type(joined) is JoinedList
    assert (joined, one) == ([1, 2], [1])
    growing = GrowingList()
    assert added(growing, [1]) is growing
    assert added(growing, [2]) == [1, 2]
    with pytest.raises(BudgetError):
        added([0] * LONGEST, [0])


# --- Maps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["a", 1, -1, Uint(1), True, False, 1.0, -0.5, None, Duration(5), Timestamp(5), parse_ip("::1"), [1], {"a": 1}, NONE,
     Optional(1), QUANTITY, TypeValue("int"), AttributeList([1])],
)  # fmt: skip
def test_keys_become_what_they_were(value: Any) -> None:
    assert value_of(key_of(value)) is value or value_of(key_of(value)) == value
    assert type(value_of(key_of(value))) is type(value)


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


def test_the_same_list_is_the_same_key_unless_it_is_the_devices() -> None:
    mine, its = [1], AttributeList([1])
    assert key_of(mine) == key_of(mine)
    assert key_of(mine) != key_of([1])
    assert key_of(its) != key_of(its)


def test_unknown_domains_are_empty_but_not_there() -> None:
    domains = DomainMap(some=AttributeMap(a=1))
    assert indexing.index(domains, "nope") == {}
    assert indexing.index(domains, 5) == {}
    assert indexing.has(domains, "nope")
    assert not membership.is_in("nope", domains)
    assert list(maps.keys(domains)) == ["some"]
    with pytest.raises(EvaluationError, match="no such key: a"):
        indexing.index(domains["nope"], "a")


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


# --- Indices and sets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "key", "expected"),
    [
        ([1, 2], 1, 2), ([1, 2], Uint(1), 2), ([1, 2], 1.0, 2), ([1, 2], 2, maps.MISSING), ([1, 2], -1, maps.MISSING),
        ([1, 2], 0.5, EvaluationError), ([1, 2], "a", EvaluationError), ([1, 2], True, EvaluationError),
        ([1, 2], 1e300, EvaluationError), ([1, 2], NAN, EvaluationError), ({"a": 1}, "a", 1),
        ({"a": 1}, "b", maps.MISSING), ({"a": 1}, None, EvaluationError), ({"a": 1}, [1], EvaluationError),
        ("abc", 0, maps.MISSING), (5, "a", maps.MISSING), (None, "a", maps.MISSING),
        (Optional({"a": 1}), "a", maps.MISSING), (maps.MISSING, None, maps.MISSING),
    ],
)  # fmt: skip
def test_what_a_key_leads_to(value: Any, key: Any, expected: Any) -> None:
    if expected is EvaluationError:
        with pytest.raises(EvaluationError):
            indexing.find(value, key)
        return
    assert indexing.find(value, key) is expected or indexing.find(value, key) == expected
    if expected is maps.MISSING:
        assert indexing.find_optional(value, key) is NONE
        with pytest.raises(EvaluationError):
            indexing.index(value, key)


@pytest.mark.parametrize(
    ("constants", "members", "others"),
    [
        ([1, 2], [1, Uint(2), 2.0], [3, "1", True, 1.5, None, [1]]),
        ([1.5, 2.0], [1.5, 2, Uint(2), 2.0], [1, "2.0", NAN]),
        ([Uint(2**63)], [Uint(2**63), float(2**63)], [LARGEST]),
        (["a", "b"], ["a"], [1, "c", QUANTITY, Optional("a")]),
        ([True], [True], [1, False, "true"]),
        ([2**53 + 1], [2.0**53, 2**53 + 1], [2**53]),
    ],
)
def test_constants_as_a_set(constants: list[Any], members: list[Any], others: list[Any]) -> None:
    as_set = membership.members(constants)
    assert as_set is not None
    assert all(membership.is_member(member, as_set) for member in members)
    assert not any(membership.is_member(other, as_set) for other in others)


def test_not_all_constants_make_a_set() -> None:
    assert membership.members([b"a"]) is None
    assert membership.members([[1]]) is None
    assert membership.members([None]) is None
