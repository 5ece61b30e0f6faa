"""Floating-point numbers as Go writes and reads them."""

import math
import re
from typing import Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values.bounds import check_numeral
from gpusharing.cel.values.quoting import excerpt

_DIGITS: Final = "[0-9]+(?:_[0-9]+)*"
_HEX_DIGITS: Final = "[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
_DECIMAL: Final = re.compile(rf"[-+]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][-+]?{_DIGITS})?")
_HEXADECIMAL: Final = re.compile(
    rf"[-+]?0[xX](?:_?{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})[pP][-+]?{_DIGITS}"
)
_SPECIAL: Final = re.compile(r"nan|[-+]?inf(?:inity)?", re.IGNORECASE | re.ASCII)


def parse(text: str) -> float:
    """Decimal or hexadecimal, with underscores between digits."""
    check_numeral(text)
    if _SPECIAL.fullmatch(text):
        return float(text)
    try:
        if _DECIMAL.fullmatch(text):
            number = float(text.replace("_", ""))
        elif _HEXADECIMAL.fullmatch(text):
            number = float.fromhex(text.replace("_", ""))
        else:
            raise EvaluationError(f"{excerpt(text)} is no number")
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise EvaluationError(f"{excerpt(text)} is too large for a double")
    return number


def shortest(number: float) -> str:
    """The fewest digits that say which number it is: with an exponent from a million on, and below 0.0001."""
    if not math.isfinite(number):
        return _special(number)
    sign, digits, point = _decimal(number)
    exponent = point - 1
    if -4 <= exponent < 6:
        return sign + _positional(digits, point)
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def plain(number: float) -> str:
    """As `shortest`, but never with an exponent."""
    sign, digits, point = _decimal(number)
    return sign + _positional(digits, point)


def fixed(number: float, places: int) -> str:
    return f"{number:.{places}f}" if math.isfinite(number) else _special(number)


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "+Inf" if number > 0 else "-Inf"


def _decimal(number: float) -> tuple[str, str, int]:
    """Sign, significant digits, and how many of them stand before the point."""
    mantissa, _, exponent = f"{number!r}".partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    fraction = fraction.rstrip("0")
    significant = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(significant)
    sign = "-" if math.copysign(1, number) < 0 else ""
    if not significant:
        return sign, "0", 1
    return sign, significant.rstrip("0"), len(whole) - leading_zeros + int(exponent or "0")


def _positional(digits: str, point: int) -> str:
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"
