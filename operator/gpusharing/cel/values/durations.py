"""Spans of time: nanoseconds in 64 bits, as Go has them."""

import re
from typing import Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values.bounds import check_numeral
from gpusharing.cel.values.doubles import plain
from gpusharing.cel.values.quoting import excerpt

SECOND: Final = 10**9
_MINUTE: Final = 60 * SECOND
_HOUR: Final = 60 * _MINUTE
_UNITS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND, "m": _MINUTE, "h": _HOUR,
}  # fmt: skip
_TERM: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]+)")
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 63) - 1


class Duration:
    """Immutable."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        if not _SMALLEST <= nanoseconds <= _LARGEST:
            raise EvaluationError("integer overflow: a duration is at most 292 years long")
        self.nanoseconds = nanoseconds

    def __str__(self) -> str:
        return f"{plain(self._in(SECOND))}s"

    def hours(self) -> int:
        return int(self._in(_HOUR))

    def minutes(self) -> int:
        return int(self._in(_MINUTE))

    def seconds(self) -> int:
        return int(self._in(SECOND))

    def milliseconds(self) -> int:
        return divided(self.nanoseconds, 10**6)[0]

    def compare(self, other: "Duration") -> int:
        """-1, 0 or 1."""
        return (self.nanoseconds > other.nanoseconds) - (self.nanoseconds < other.nanoseconds)

    def equals(self, other: "Duration") -> bool:
        return self.nanoseconds == other.nanoseconds

    def negate(self) -> "Duration":
        return Duration(-self.nanoseconds)

    def add(self, other: "Duration") -> "Duration":
        return Duration(self.nanoseconds + other.nanoseconds)

    def subtract(self, other: "Duration") -> "Duration":
        return Duration(self.nanoseconds - other.nanoseconds)

    def _in(self, unit: int) -> float:
        """The sum of two roundings, like Go's: for a long duration it may reach the next whole number."""
        whole, rest = divided(self.nanoseconds, unit)
        return float(whole) + float(rest) / float(unit)


def divided(value: int, by: int) -> tuple[int, int]:
    """Quotient and remainder, toward zero."""
    quotient, remainder = divmod(abs(value), by)
    return (quotient, remainder) if value >= 0 else (-quotient, -remainder)


def parse(text: str) -> Duration:
    """Numbers with units, such as "1h30m", "-1.5s" or "100ms"."""
    check_numeral(text)
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return Duration(0)
    nanoseconds = at = 0
    while at < len(unsigned):
        match = _TERM.match(unsigned, at)
        if match is None:
            raise _invalid(text)
        nanoseconds += _term(text, *match.groups(""))
        at = match.end()
    if not unsigned or nanoseconds > (-_SMALLEST if text[0] == "-" else _LARGEST):
        raise _invalid(text)
    return Duration(-nanoseconds if text[0] == "-" else nanoseconds)


def _term(text: str, whole: str, fraction: str, unit: str) -> int:
    scale = _UNITS.get(unit)
    if scale is None or not (whole or fraction):
        raise _invalid(text)
    value = int(whole or "0") * scale
    if fraction:
        value += _part(fraction, scale)
    if value > -_SMALLEST:
        raise _invalid(text)
    return value


def _part(fraction: str, scale: int) -> int:
    """As many digits as 63 bits hold, and the rounding of two floats."""
    value, divisor = 0, 1.0
    for digit in fraction:
        larger = value * 10 + int(digit)
        if larger > -_SMALLEST:
            break
        value, divisor = larger, divisor * 10
    return int(float(value) * (float(scale) / divisor))


def _invalid(text: str) -> EvaluationError:
    return EvaluationError(f"{excerpt(text)} is no duration: expected numbers with units, such as 1h30m or 1.5s")
