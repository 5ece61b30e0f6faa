"""Moments give the answers of Kubernetes 1.37."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values import durations
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.timestamps import Timestamp, parse

# Text, int(), string().
MOMENTS = [
    ("2024-02-29T12:34:56Z", 1709210096, "2024-02-29T12:34:56Z"),
    ("2024-02-29T12:34:56.5Z", 1709210096, "2024-02-29T12:34:56.5Z"),
    ("2024-02-29T12:34:56,123456789999Z", 1709210096, "2024-02-29T12:34:56.123456789Z"),
    ("2024-02-29T1:34:56Z", 1709170496, "2024-02-29T01:34:56Z"),
    ("2024-02-29T12:34:56+02:00", 1709202896, "2024-02-29T12:34:56+02:00"),
    ("2024-02-29T12:34:56-00:30", 1709211896, "2024-02-29T12:34:56-00:30"),
    ("2024-02-29T12:34:56+24:60", 1709120096, "2024-02-29T12:34:56+25:00"),
    ("2024-02-29T12:34:56+00:00", 1709210096, "2024-02-29T12:34:56Z"),
    ("2024-02-29T12:34:56-00:00", 1709210096, "2024-02-29T12:34:56Z"),
    ("1969-12-31T23:59:59.9Z", -1, "1969-12-31T23:59:59.9Z"),
    ("0001-01-01T00:00:00Z", -62135596800, "0001-01-01T00:00:00Z"),
    ("0001-01-01T00:00:00-01:00", -62135593200, "0001-01-01T00:00:00-01:00"),
    ("9999-12-31T23:59:59.999999999Z", 253402300799, "9999-12-31T23:59:59.999999999Z"),
    ("9999-12-31T23:59:59+01:00", 253402297199, "9999-12-31T23:59:59+01:00"),
]

REFUSED = [
    "", "2024-01-01", "2024-01-01T00:00Z", "2024-01-01T00:00:00", "2024-01-01 00:00:00Z", "2024-01-01t00:00:00Z",
    "2024-01-01T00:00:00z", "2024-01-01T00:00:00.Z", "2024-01-01T00:00:00+0200", "24-01-01T00:00:00Z",
    "2024-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z",
    "2024-01-00T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T23:60:00Z", "2024-01-01T23:59:60Z",
    "2024-01-01T00:00:00+25:00", "2024-01-01T00:00:00+00:61", " 2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z\n",
    "٢024-01-01T00:00:00Z",
]  # fmt: skip
OUT_OF_RANGE = ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"]

# Text, zone, and in that zone: year, month, days of year, month and week, hours, minutes, seconds, milliseconds.
PARTS = [
    ("2024-02-29T12:34:56.789Z", "", (2024, 1, 59, 29, 4, 12, 34, 56, 789)),
    ("2024-02-29T12:34:56.789Z", "+02:00", (2024, 1, 59, 29, 4, 14, 34, 56, 789)),
    ("2024-02-29T12:34:56.789Z", "-13:00", (2024, 1, 58, 28, 3, 23, 34, 56, 789)),
    ("2024-02-29T12:34:56.789Z", "2:5", (2024, 1, 59, 29, 4, 14, 39, 56, 789)),
    ("2024-02-29T12:34:56.789Z", "-0:30", (2024, 1, 59, 29, 4, 12, 4, 56, 789)),
    ("2024-02-29T12:34:56.789Z", "+00:75", (2024, 1, 59, 29, 4, 13, 49, 56, 789)),
    ("2024-02-29T12:34:56.789Z", "1:-5", (2024, 1, 59, 29, 4, 13, 29, 56, 789)),
    ("2024-01-01T00:30:00Z", "America/New_York", (2023, 11, 364, 31, 0, 19, 30, 0, 0)),
    ("2024-07-01T00:30:00Z", "America/New_York", (2024, 5, 181, 30, 0, 20, 30, 0, 0)),
    ("2024-07-01T12:00:00Z", "Asia/Kolkata", (2024, 6, 182, 1, 1, 17, 30, 0, 0)),
    ("2024-03-31T01:00:00Z", "Europe/Berlin", (2024, 2, 90, 31, 0, 3, 0, 0, 0)),
    ("2100-07-01T12:00:00Z", "Europe/Berlin", (2100, 6, 181, 1, 4, 14, 0, 0, 0)),
    ("1850-07-01T12:00:00Z", "Europe/Berlin", (1850, 6, 181, 1, 1, 12, 53, 28, 0)),
    ("0001-01-01T00:00:00Z", "America/New_York", (0, 11, 365, 31, 0, 19, 3, 58, 0)),
    ("9999-12-31T23:59:59Z", "Asia/Tokyo", (10000, 0, 0, 1, 6, 8, 59, 59, 0)),
    ("2024-12-31T12:00:00+14:00", "-01:00", (2024, 11, 364, 30, 1, 21, 0, 0, 0)),
    ("2000-01-01T00:00:00Z", "2000000:00", (2228, 1, 58, 28, 4, 8, 0, 0, 0)),
]

UNKNOWN_ZONES = [
    "Nope/Zone", "../UTC", "/etc/localtime", "europe/berlin", "America", "\\x", "é", "UTC ", "a\x00b", "zone.tab", ".",
    "a" * 5000, ":", "1:", ":1", "+:00", "a:b", "1:2:3", "9223372036854775808:00",
]  # fmt: skip

moments = st.builds(Timestamp, st.integers(-62135596800, 253402300799), st.integers(0, 999_999_999))


@pytest.mark.parametrize(("text", "unix", "written"), MOMENTS)
def test_a_moment_is_read_and_written(text: str, unix: int, written: str) -> None:
    moment = parse(text)
    assert moment.unix == unix
    assert str(moment) == written


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(EvaluationError, match="is no timestamp"):
        parse(text)


@pytest.mark.parametrize("text", OUT_OF_RANGE)
def test_only_ten_thousand_years_are_supported(text: str) -> None:
    with pytest.raises(EvaluationError, match="timestamp overflow"):
        parse(text)


@pytest.mark.parametrize("unix", [-62135596801, 253402300800, -(1 << 63), (1 << 63) - 1])
def test_an_integer_out_of_range_is_no_moment(unix: int) -> None:
    with pytest.raises(EvaluationError, match="timestamp overflow"):
        Timestamp(unix)


def test_a_moment_with_very_many_digits_is_not_read() -> None:
    with pytest.raises(BudgetError):
        parse(f"2024-01-01T00:00:00.{'1' * 2000}Z")


@pytest.mark.parametrize(("text", "zone", "parts"), PARTS)
def test_the_parts_of_a_moment_in_a_zone(text: str, zone: str, parts: tuple[int, ...]) -> None:
    moment = parse(text)
    assert parts == (
        moment.year(zone),
        moment.month(zone),
        moment.day_of_year(zone),
        moment.day_of_month(zone),
        moment.day_of_week(zone),
        moment.hours(zone),
        moment.minutes(zone),
        moment.seconds(zone),
        moment.milliseconds(zone),
    )


@pytest.mark.parametrize("zone", UNKNOWN_ZONES)
def test_an_unknown_zone_is_an_error_even_where_it_makes_no_difference(zone: str) -> None:
    with pytest.raises(EvaluationError):
        parse("2024-01-01T00:00:00Z").milliseconds(zone)


@pytest.mark.parametrize(
    ("text", "duration", "expected"),
    [
        ("2024-02-29T00:00:00.5+02:00", "-500ms", "2024-02-29T00:00:00+02:00"),
        ("1970-01-01T00:00:00Z", "2562047h", "2262-04-11T23:00:00Z"),
        ("2024-01-01T00:00:00Z", "1.999999999s", "2024-01-01T00:00:01.999999999Z"),
    ],
)
def test_a_moment_keeps_its_zone_when_time_is_added(text: str, duration: str, expected: str) -> None:
    assert str(parse(text).add(durations.parse(duration))) == expected


def test_sums_must_stay_within_the_supported_years() -> None:
    with pytest.raises(EvaluationError, match="timestamp overflow"):
        parse("9999-12-31T23:59:59.999999999Z").add(Duration(1))
    with pytest.raises(EvaluationError, match="timestamp overflow"):
        parse("0001-01-01T00:00:00Z").subtract(Duration(1))
    with pytest.raises(EvaluationError, match="integer overflow"):
        parse("9999-01-01T00:00:00Z").since(parse("0001-01-01T00:00:00Z"))


def test_the_same_moment_in_two_zones_is_equal() -> None:
    assert parse("2024-01-01T02:00:00+02:00").equals(parse("2024-01-01T00:00:00Z"))


@given(moments)
def test_a_moment_is_read_as_it_is_written(moment: Timestamp) -> None:
    assert parse(str(moment)).equals(moment)


@given(moments, moments)
def test_adding_what_lies_between_leads_from_one_to_the_other(one: Timestamp, other: Timestamp) -> None:
    try:
        between = other.since(one)
    except EvaluationError:
        assert abs(other.unix - one.unix) >= (1 << 63) // 10**9
        return
    assert one.add(between).equals(other)
    assert other.subtract(between).equals(one)
    assert other.compare(one) == (between.nanoseconds > 0) - (between.nanoseconds < 0)


@given(moments)
def test_the_calendar_is_that_of_the_library(moment: Timestamp) -> None:
    same = datetime.fromisoformat(str(Timestamp(moment.unix)))
    assert (moment.year(), moment.month() + 1, moment.day_of_month()) == (same.year, same.month, same.day)
    assert moment.day_of_week() == same.isoweekday() % 7
    assert moment.day_of_year() == same.timetuple().tm_yday - 1
    assert (moment.hours(), moment.minutes(), moment.seconds()) == (same.hour, same.minute, same.second)
