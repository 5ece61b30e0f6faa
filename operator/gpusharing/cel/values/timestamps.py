"""Moments between the years 1 and 9999, to the nanosecond."""

import re
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values.bounds import check_numeral
from gpusharing.cel.values.durations import SECOND, Duration, divided
from gpusharing.cel.values.quoting import excerpt

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
_EPOCH: Final = date(1970, 1, 1).toordinal()
_FIRST: Final = (date(1, 1, 1).toordinal() - _EPOCH) * _DAY
_LAST: Final = (date(9999, 12, 31).toordinal() - _EPOCH + 1) * _DAY - 1
# The calendar, weekdays and rules of time zones repeat.
_CYCLE_YEARS: Final = 400
_CYCLE: Final = (date(1 + _CYCLE_YEARS, 1, 1).toordinal() - 1) * _DAY
# Go counts from the March before the first of its years, without a sign: what is earlier comes out at the other end.
_YEARS_OF_GO: Final = 292_277_022_400
_START_OF_GO: Final = _FIRST - _YEARS_OF_GO // _CYCLE_YEARS * _CYCLE - (date(2, 1, 1) - date(1, 3, 1)).days * _DAY
_ALL_OF_GO: Final = 1 << 64

# Go takes an hour of one digit, a comma for the point, and zones that are a little too large.
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([-+])([0-9]{2}):([0-9]{2}))"
)
_INTEGER: Final = re.compile(r"([-+]?)0*([0-9]{1,19})")
# Other names Python would try to import.
_ZONE_NAME: Final = re.compile(r"[A-Za-z0-9_+-]{1,32}(?:/[A-Za-z0-9_+-]{1,32}){0,3}")


class Timestamp:
    """Seconds since 1970 and nanoseconds of the second. `offset` is the zone it was written in, in seconds, and shows
    only in text. Immutable."""

    __slots__ = ("nanoseconds", "offset", "unix")

    def __init__(self, unix: int, nanoseconds: int = 0, offset: int = 0) -> None:
        if not _FIRST <= unix <= _LAST:
            raise EvaluationError("timestamp overflow: only the years 1 to 9999 are supported")
        self.unix = unix
        self.nanoseconds = nanoseconds
        self.offset = offset

    def __str__(self) -> str:
        day, second = divmod(_counted(self.unix + self.offset), _DAY)
        year, of_cycle = _calendar(day)
        fraction = f".{self.nanoseconds:09}".rstrip("0") if self.nanoseconds else ""
        time = f"{second // _HOUR:02}:{second // _MINUTE % 60:02}:{second % 60:02}{fraction}"
        return f"{year:04}-{of_cycle.month:02}-{of_cycle.day:02}T{time}{_written(self.offset)}"

    def compare(self, other: "Timestamp") -> int:
        """-1, 0 or 1."""
        mine, its = (self.unix, self.nanoseconds), (other.unix, other.nanoseconds)
        return (mine > its) - (mine < its)

    def equals(self, other: "Timestamp") -> bool:
        return self.unix == other.unix and self.nanoseconds == other.nanoseconds

    def add(self, duration: Duration) -> "Timestamp":
        seconds, nanoseconds = divmod(self.nanoseconds + duration.nanoseconds, SECOND)
        return Timestamp(self.unix + seconds, nanoseconds, self.offset)

    def subtract(self, duration: Duration) -> "Timestamp":
        return self.add(duration.negate())

    def since(self, other: "Timestamp") -> Duration:
        return Duration((self.unix - other.unix) * SECOND + self.nanoseconds - other.nanoseconds)

    def year(self, zone: str = "") -> int:
        return self._date(zone)[0]

    def month(self, zone: str = "") -> int:
        """From 0."""
        return self._date(zone)[1].month - 1

    def day_of_year(self, zone: str = "") -> int:
        """From 0."""
        return self._date(zone)[1].timetuple().tm_yday - 1

    def day_of_month(self, zone: str = "") -> int:
        """From 1."""
        return self._date(zone)[1].day

    def day_of_week(self, zone: str = "") -> int:
        """From 0, which is Sunday."""
        return self._date(zone)[1].isoweekday() % 7

    def hours(self, zone: str = "") -> int:
        return self._second_of_day(zone) // _HOUR

    def minutes(self, zone: str = "") -> int:
        return self._second_of_day(zone) // _MINUTE % 60

    def seconds(self, zone: str = "") -> int:
        return self._second_of_day(zone) % 60

    def milliseconds(self, zone: str = "") -> int:
        """Of the second: in any zone the same, if there is such a zone."""
        _offset(zone, self.unix)
        return self.nanoseconds // 10**6

    def _date(self, zone: str) -> tuple[int, date]:
        return _calendar(_counted(self.unix + _offset(zone, self.unix)) // _DAY)

    def _second_of_day(self, zone: str) -> int:
        return _counted(self.unix + _offset(zone, self.unix)) % _DAY


def parse(text: str) -> Timestamp:
    check_numeral(text)
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise _invalid(text)
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    fraction, sign, zone_hours, zone_minutes = match.groups("0")[6:]
    offset = (int(zone_hours) * 60 + int(zone_minutes)) * _MINUTE
    if hour > 23 or minute > 59 or second > 59 or int(zone_hours) > 24 or int(zone_minutes) > 60:
        raise _invalid(text)
    try:
        # The year 0 is too early in any case, but its days must be right.
        days = date(year or _CYCLE_YEARS, month, day).toordinal() - _EPOCH - (0 if year else _CYCLE // _DAY)
    except ValueError:
        raise _invalid(text) from None
    if sign == "-":
        offset = -offset
    unix = days * _DAY + hour * _HOUR + minute * _MINUTE + second - offset
    return Timestamp(unix, int(fraction[:9].ljust(9, "0")), offset)


def _invalid(text: str) -> EvaluationError:
    return EvaluationError(f"{excerpt(text)} is no timestamp: expected one such as 2026-01-31T12:00:00Z")


def _counted(seconds: int) -> int:
    """Messages may have seconds that are no timestamp; Go writes them all the same."""
    return (seconds - _START_OF_GO) % _ALL_OF_GO + _START_OF_GO


def _calendar(day: int) -> tuple[int, date]:
    """The year of a day since 1970; and a day of Python's with the same month, day of the month and weekday."""
    cycle, day = divmod(day + _EPOCH - 1, _CYCLE // _DAY)
    same = date.fromordinal(day + 1)
    return same.year + cycle * _CYCLE_YEARS, same


def _written(offset: int) -> str:
    if offset == 0:
        return "Z"
    hours, minutes = divmod(abs(offset) // _MINUTE, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02}:{minutes:02}"


def _offset(zone: str, unix: int) -> int:
    """Seconds east of UTC, of a zone's name or of an offset such as -08:00."""
    # The scheduler's local time is that of its container.
    if zone in ("", "UTC", "Local"):
        return 0
    hours, colon, minutes = zone.partition(":")
    if colon:
        return _fixed_offset(hours, minutes)
    rules = _rules(zone)
    if unix < _FIRST + _CYCLE:
        unix += _CYCLE
    elif unix > _LAST - _CYCLE:
        unix -= _CYCLE
    utc = datetime(1970, 1, 1) + timedelta(seconds=unix)  # noqa: DTZ001 (the zone is what we ask for)
    return round((rules.fromutc(utc.replace(tzinfo=rules)).replace(tzinfo=None) - utc).total_seconds())


def _rules(zone: str) -> ZoneInfo:
    try:
        if _ZONE_NAME.fullmatch(zone):
            return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        pass
    raise EvaluationError(f"unknown time zone {excerpt(zone)}")


def _fixed_offset(hours: str, minutes: str) -> int:
    """Unlimited, and with Go's overflows."""
    sign = -1 if hours.startswith("-") else 1
    nanoseconds = _int64(_int64(_integer(hours) * 60 + sign * _integer(minutes)) * _MINUTE * SECOND)
    whole, rest = divided(nanoseconds, SECOND)
    return int(float(whole) + float(rest) / float(SECOND))


def _integer(text: str) -> int:
    match = _INTEGER.fullmatch(text)
    if match is None or _int64(integer := int(match[1] + match[2])) != integer:
        raise EvaluationError(f"{excerpt(text)} in a time zone is no number")
    return integer


def _int64(value: int) -> int:
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)
