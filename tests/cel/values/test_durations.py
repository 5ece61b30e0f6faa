"""Durations give the answers of Kubernetes 1.37."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values.durations import Duration, parse

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1

# Text, nanoseconds, string().
DURATIONS = [
    ("0", 0, "0s"),
    ("-0", 0, "0s"),
    ("+0", 0, "0s"),
    ("1s", 10**9, "1s"),
    ("-1.5s", -1500000000, "-1.5s"),
    ("1h30m10s", 5410 * 10**9, "5410s"),
    ("1h1h", 7200 * 10**9, "7200s"),
    ("100ms", 10**8, "0.1s"),
    ("1us", 1000, "0.000001s"),
    ("1\N{MICRO SIGN}s", 1000, "0.000001s"),
    ("1\N{GREEK SMALL LETTER MU}s", 1000, "0.000001s"),
    ("1ns", 1, "0.000000001s"),
    ("0.5ns", 0, "0s"),
    ("1.h", 3600 * 10**9, "3600s"),
    (".5h", 1800 * 10**9, "1800s"),
    ("00001s", 10**9, "1s"),
    ("0.9999999999s", 999999999, "0.999999999s"),
    ("1.123456789123456789s", 1123456789, "1.123456789s"),
    ("0.3333333333333333333h", 1200 * 10**9, "1200s"),
    ("2562047h47m16.854775807s", LARGEST, "9223372036.854776s"),
    ("-2562047h47m16.854775808s", SMALLEST, "-9223372036.854776s"),
]

REFUSED = [
    "", "1", "-", "+", "s", ".s", "1x", "1 s", " 1s", "1s ", "1s\n", "1hs", "1d", "h1", "1.5", "--1s", "1e3s", "1S",
    "٣s", "3000000h", "2562047h47m16.854775808s", "9223372036854775808ns", "9223372036854775809ns",
    "-9223372036854775809ns",
]  # fmt: skip

# Nanoseconds, and the whole hours, minutes, seconds, milliseconds.
PARTS = [
    (0, 0, 0, 0, 0),
    (1500000000, 0, 0, 1, 1500),
    (-1500000000, 0, 0, -1, -1500),
    (5399999999999, 1, 89, 5399, 5399999),
    (-1, 0, 0, 0, 0),
    (999999999, 0, 0, 0, 999),
    (SMALLEST, -2562047, -153722867, -9223372036, -9223372036854),
    (LARGEST, 2562047, 153722867, 9223372036, 9223372036854),
]

durations = st.integers(SMALLEST, LARGEST).map(Duration)


@pytest.mark.parametrize(("text", "nanoseconds", "written"), DURATIONS)
def test_a_duration_is_read_and_written(text: str, nanoseconds: int, written: str) -> None:
    duration = parse(text)
    assert duration.nanoseconds == nanoseconds
    assert str(duration) == written


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(EvaluationError, match="is no duration"):
        parse(text)


def test_a_duration_of_very_many_terms_is_not_read() -> None:
    with pytest.raises(BudgetError):
        parse("1ns" * 1000)


@pytest.mark.parametrize(("nanoseconds", "hours", "minutes", "seconds", "milliseconds"), PARTS)
def test_the_parts_of_a_duration(nanoseconds: int, hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    duration = Duration(nanoseconds)
    assert duration.hours() == hours
    assert duration.minutes() == minutes
    assert duration.seconds() == seconds
    assert duration.milliseconds() == milliseconds


def test_a_long_duration_rounds_up_to_the_next_second() -> None:
    assert Duration(9_223_372_035 * 10**9 + 999_999_999).seconds() == 9_223_372_036


@given(durations, durations)
def test_sums_are_exact_or_errors(one: Duration, other: Duration) -> None:
    total, rest = one.nanoseconds + other.nanoseconds, one.nanoseconds - other.nanoseconds
    for operation, expected in ((one.add, total), (one.subtract, rest)):
        if SMALLEST <= expected <= LARGEST:
            assert operation(other).nanoseconds == expected
        else:
            with pytest.raises(EvaluationError, match="integer overflow"):
                operation(other)


@given(durations, durations)
def test_the_order_is_that_of_the_nanoseconds(one: Duration, other: Duration) -> None:
    assert one.compare(other) == -other.compare(one)
    assert one.equals(other) == (one.compare(other) == 0) == (one.nanoseconds == other.nanoseconds)


def test_the_shortest_duration_has_no_negative() -> None:
    with pytest.raises(EvaluationError, match="integer overflow"):
        Duration(SMALLEST).negate()


@given(st.integers(-(10**15), 10**15))
def test_a_duration_of_days_is_written_to_the_nanosecond_or_the_next(nanoseconds: int) -> None:
    assert abs(parse(str(Duration(nanoseconds))).nanoseconds - nanoseconds) <= 1
