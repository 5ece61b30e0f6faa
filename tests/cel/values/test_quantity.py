"""Quantities give the answers of Kubernetes 1.37; where another version answers otherwise, the test says so."""

import math
from fractions import Fraction
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values.quantity import Quantity, is_quantity, parse

BIG = "9999999999999999999999G"

# Text, asInteger() or None where isInteger() is false, asApproximateFloat(), sign().
QUANTITIES: list[tuple[str, int | None, float, int]] = [
    ("0", 0, 0.0, 0),
    ("1", 1, 1.0, 1),
    ("-1", -1, -1.0, -1),
    ("+1", 1, 1.0, 1),
    ("+", 0, 0.0, 0),
    ("-", 0, 0.0, 0),
    ("m", None, 0.0, 0),
    ("Ti", 0, 0.0, 0),
    ("e3", 0, 0.0, 0),
    (".", 0, 0.0, 0),
    ("5.", 5, 5.0, 1),
    (".5", None, 0.5, 1),
    ("1.0", None, 1.0, 1),
    ("1k", 1000, 1000.0, 1),
    ("1Ki", 1024, 1024.0, 1),
    ("1.5Ki", None, 1536.0, 1),
    ("-0.5Ki", None, -512.0, -1),
    ("80Gi", 85899345920, 85899345920.0, 1),
    ("80G", 80000000000, 80000000000.0, 1),
    ("15Ti", 16492674416640, 16492674416640.0, 1),
    ("9999Ti", None, 1.0994016766132224e16, 1),
    ("1Pi", None, 1125899906842624.0, 1),
    ("1Ei", None, 1.152921504606847e18, 1),
    ("9Ei", None, 9.223372036854776e18, 1),
    ("-8Ei", None, -9.223372036854776e18, -1),
    ("1e3", 1000, 1000.0, 1),
    ("1E3", 1000, 1000.0, 1),
    ("1E", 10**18, 1e18, 1),
    ("1e-3", None, 0.001, 1),
    ("9e18", 9 * 10**18, 9e18, 1),
    ("10e18", None, 1e19, 1),
    ("999999999999999999", 999999999999999999, 1e18, 1),
    ("1000000000000000000", None, 1.0000000000000001e18, 1),
    ("-1000000000000000000", None, -1.0000000000000001e18, -1),
    ("0.1n", None, 1e-09, 1),
    ("1.5n", None, 2e-09, 1),
    ("100m", None, 0.1, 1),
    ("-0.0000000001", None, -1e-09, -1),
    ("123456789.123456789", None, 123456789.12345679, 1),
    ("1e400", None, math.inf, 1),
    ("1e-400", None, 1e-09, 1),
    ("1e4294967297", 10, 10.0, 1),
    ("1.5e-2147483648", None, math.inf, 1),
    ("1e00000000000000000000000000003", 1000, 1000.0, 1),
    (BIG, None, 1.0000000000000001e31, 1),
    ("0000000000000000000000000001", 1, 1.0, 1),
    ("0.0000000000000000000000000000", None, 0.0, 0),
    ("0Pi", None, 0.0, 0),
    (".0Ei", None, 0.0, 0),
]

WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_NUMBER = "unable to parse numeric part of quantity"
WRONG_SUFFIX = "unable to parse quantity's suffix"

REFUSED = [
    *((text, WRONG_FORMAT) for text in ("", "abc", "1_000", "1.2.3", "1 ", " 1", "1k ", "1\n", "1é", "0x10", "٣")),
    *((text, WRONG_NUMBER) for text in ("Pi", "Ei", ".Ei", "+Pi")),
    *((text, WRONG_SUFFIX) for text in ("1K", "1Ei3", "--1", "1-5", "1+", "e", "1e", "1e+", "1eE", "1ki", "1i", "1.e")),
    ("1e9223372036854775808", WRONG_SUFFIX),
]

COMPARISONS = [
    ("1", "1", 0),
    ("1", "1000m", 0),
    ("2000k", "2M", 0),
    ("1Ki", "1024", 0),
    ("1Ki", "1k", 1),
    ("0.1", "100m", 0),
    ("0.1n", "1n", 0),
    ("8Ei", "9Ei", 0),
    ("-1", "1n", -1),
    ("0", "-0", 0),
    ("0e9", "0", 0),
    (BIG, "1", 1),
    (BIG, BIG, 0),
    ("-" + BIG, "1e30", -1),
    ("1e19", "10E", 0),
    ("1e400", "1e399", 1),
    ("-1e400", "1e-9", -1),
    ("1e18", "999999999999999999", 1),
    ("-15", "-1e1", -1),
    ("-15", "-2e1", 1),
]

# The sum as a float, and whether it is an integer; the same of the difference.
SUMS = [
    ("1", "1", (2.0, True), (0.0, True)),
    ("50k", "20", (50020.0, True), (49980.0, True)),
    ("1Gi", "1Mi", (1074790400.0, True), (1072693248.0, True)),
    ("999999999999999999", "1e18", (2e18, True), (-1.0, True)),
    ("9e18", "9e18", (1.8e19, False), (0.0, True)),
    ("0", "1e30", (1e30, False), (-1e30, False)),
    ("1e18", "1n", (1.0000000000000001e18, False), (1.0000000000000001e18, False)),
    ("1e9", "1n", (1000000000.0000001, False), (1000000000.0000001, False)),
    ("-5", "5", (0.0, True), (-10.0, True)),
    ("1.0", "1", (2.0, False), (0.0, False)),
    ("0.0", "7", (7.0, True), (-7.0, True)),
    ("7", "0.0", (7.0, True), (7.0, True)),
    ("1Ei", "1Ei", (2.305843009213694e18, False), (0.0, False)),
]


def value(quantity: Quantity) -> Fraction:
    return quantity.amount.unscaled * Fraction(10) ** quantity.amount.exponent


@pytest.mark.parametrize(("text", "integer", "approximately", "sign"), QUANTITIES)
def test_a_quantity_is_read_as_kubernetes_reads_it(
    text: str, integer: int | None, approximately: float, sign: int
) -> None:
    quantity = parse(text)
    assert is_quantity(text)
    assert quantity.is_integer() == (integer is not None)
    assert quantity.as_float() == approximately
    assert quantity.sign() == sign
    if integer is None:
        with pytest.raises(EvaluationError, match="cannot convert value to integer"):
            quantity.as_integer()
    else:
        assert quantity.as_integer() == integer


def test_zero_by_an_infinite_power_of_ten_is_not_a_number() -> None:
    assert parse("0e400").is_integer()
    assert math.isnan(parse("0e400").as_float())


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_no_quantity_is_refused_in_kubernetes_words(text: str, message: str) -> None:
    assert not is_quantity(text)
    with pytest.raises(EvaluationError) as caught:
        parse(text)
    assert caught.value.message == message


@pytest.mark.parametrize(("left", "right", "order"), COMPARISONS)
def test_quantities_compare_by_value(left: str, right: str, order: int) -> None:
    one, other = parse(left), parse(right)
    assert one.equals(other) == (order == 0)
    assert one.compare(other) == order
    assert other.compare(one) == -order
    assert (one.is_greater(other), one.is_less(other)) == (order > 0, order < 0)


@pytest.mark.parametrize(("left", "right", "total", "rest"), SUMS)
def test_sums_and_differences(left: str, right: str, total: tuple[float, bool], rest: tuple[float, bool]) -> None:
    one, other = parse(left), parse(right)
    added, subtracted = one.add(other), one.subtract(other)
    assert (added.as_float(), added.is_integer()) == total
    assert (subtracted.as_float(), subtracted.is_integer()) == rest
    assert added.is_sum
    assert subtracted.is_sum
    assert not one.is_sum


def test_the_smallest_integer_is_added_where_it_should_be_subtracted() -> None:
    smallest = Quantity.of(-(1 << 63))
    assert parse("5").subtract(smallest).as_integer() == 5 - (1 << 63)


def test_whatever_is_compared_with_a_big_quantity_is_no_integer_any_more() -> None:
    one, big = parse("1"), parse(BIG)
    assert one.equals(big) is False
    assert one.is_integer()
    kept = one.copy()
    assert one.is_less(big)
    assert not one.is_integer()
    assert one.equals(kept)
    assert kept.is_integer()
    assert big.is_greater(kept)
    assert kept.is_integer()


def test_a_big_quantity_grew_with_its_sum_up_to_1_36() -> None:
    big = parse(BIG)
    total = big.add_in_place(parse("1G"))
    assert big.equals(total)
    total.subtract_in_place(parse("1G"))
    assert big.equals(parse(BIG))
    assert (total.is_sum, big.is_sum) == (True, False)


def test_a_small_quantity_never_grew() -> None:
    one = parse("9e18")
    assert one.add_in_place(one).compare(parse("18e18")) == 0
    assert one.as_integer() == 9 * 10**18


def test_since_1_37_a_big_quantity_stays_as_it_is() -> None:
    big = parse(BIG)
    assert big.add(parse("1")).is_greater(big)
    assert big.equals(parse(BIG))


@pytest.mark.parametrize("exponent", [10**5, 10**8, 2**31 - 20])
def test_an_absurd_exponent_is_compared_at_once_and_never_written_out(exponent: int) -> None:
    absurd = parse(f"1e{exponent}")
    assert absurd.is_greater(parse("1.5"))
    assert parse(f"-1e{exponent}").is_less(parse("-1e400"))
    assert parse(f"1e-{exponent}").equals(parse("1n"))
    with pytest.raises(BudgetError):
        absurd.add(parse("1"))
    with pytest.raises(BudgetError):
        parse(f"9999999999999999999e{exponent}")


def test_a_number_of_absurdly_many_digits_is_a_quantity_but_not_read() -> None:
    digits = "9" * 100_000
    assert is_quantity(digits)
    with pytest.raises(BudgetError):
        parse(digits)
    assert parse("0" * 100_000 + "7").as_integer() == 7


def test_a_sum_of_many_magnitudes_does_not_grow_without_end() -> None:
    magnitudes = (parse(f"1e{exponent}") for exponent in range(100_000, 0, -500))
    with pytest.raises(BudgetError):
        reduce(Quantity.add, magnitudes)


texts = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**22),
    st.sampled_from(["", ".", ".5", ".000000001", ".9999999999"]),
    st.sampled_from(["", "n", "m", "k", "G", "E", "Ki", "Gi", "Ei", "e5", "e-12", "e25"]),
)


@given(texts, texts)
def test_the_order_is_that_of_the_values(left: str, right: str) -> None:
    one, other = parse(left), parse(right)
    expected = (value(one) > value(other)) - (value(one) < value(other))
    assert one.compare(other) == expected
    assert other.compare(one) == -expected


@given(texts, texts)
def test_sums_are_exact(left: str, right: str) -> None:
    one, other = parse(left), parse(right)
    assert value(one.add(other)) == value(one) + value(other)
    assert value(one.subtract(other)) == value(one) - value(other)


@given(st.integers(-(10**18) + 1, 10**18 - 1))
def test_an_integer_of_eighteen_digits_comes_back(integer: int) -> None:
    assert parse(str(integer)).as_integer() == integer
    assert Quantity.of(integer).equals(parse(str(integer)))


def test_a_copy_knows_nothing_of_what_became_of_the_quantity() -> None:
    used = parse("1")
    used.compare(parse("9999999999999999999999G"))
    assert not used.is_integer()
    assert used.copy().is_integer()
