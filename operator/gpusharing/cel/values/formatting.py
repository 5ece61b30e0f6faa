"""`"...".format([...])` of CEL's strings extension, in its version 2: numbers in English, with some surprises.

Go's formatter for English takes the precision of %e for a width, and cuts that of %f to a byte in one place.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values import conversions, doubles
from gpusharing.cel.values.bounds import check_text
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.numbers import BoolKey, Uint
from gpusharing.cel.values.quoting import quote
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.type_values import TypeValue, type_of

_PRECISION: Final = re.compile(r"\.([0-9]*)")
_VERBS: Final = "sdfebxXo"
_DEFAULT_PRECISION: Final = 6
_LARGEST_PRECISION: Final = (1 << 63) - 1
# Go's own parser gives up on such numbers, after CEL's has taken them.
_TOO_PRECISE: Final = 10_000_010
# No double has more places.
_MOST_PLACES: Final = 1074
_TIMES_TEN: Final = "\N{MULTIPLICATION SIGN}10"
_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NUMBERS_IN_WORDS: Final = frozenset(("NaN", "Infinity", "-Infinity"))

_STRING_RULE: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps"
)
_DECIMAL_RULE: Final = "decimal clause can only be used on integers"
_OCTAL_RULE: Final = "octal clause can only be used on integers"
_BINARY_RULE: Final = "only integers and bools can be formatted as binary"
_HEXADECIMAL_RULE: Final = "only integers, byte buffers, and strings can be formatted as hex"
_FIXED_RULE: Final = "fixed-point clause can only be used on doubles"
_SCIENTIFIC_RULE: Final = "scientific clause can only be used on doubles"


@dataclass(frozen=True, slots=True)
class Clause:
    """%verb, or %.precision and a verb."""

    verb: str
    precision: int | None = None


def parse(template: str) -> list[str | Clause]:
    """The texts and clauses of a template, in order."""
    parts: list[str | Clause] = []
    at = 0
    while (sign := template.find("%", at)) >= 0:
        parts.append(template[at:sign])
        if template.startswith("%", sign + 1):
            parts.append("%")
            at = sign + 2
        else:
            clause, at = _parse_clause(template, sign + 1)
            parts.append(clause)
    parts.append(template[at:])
    return parts


def format_text(template: str, arguments: list[Any]) -> str:
    """More arguments than clauses are no error here, unlike where Kubernetes sees both when it compiles."""
    out = _Output()
    number = 0
    for part in parse(template):
        if isinstance(part, Clause):
            if number >= len(arguments):
                raise EvaluationError(f"index {number} out of range")
            _write_clause(out, part, arguments[number])
            number += 1
        else:
            out.write(part)
    return out.text()


class _Output:
    """Collects a text that must not grow too long."""

    __slots__ = ("_length", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0

    def write(self, part: str) -> None:
        self._length += len(part)
        check_text(self._length)
        self._parts.append(part)

    def text(self) -> str:
        return "".join(self._parts)


def _parse_clause(template: str, at: int) -> tuple[Clause, int]:
    if at == len(template):
        raise EvaluationError("unexpected end of string")
    precision = None
    match = _PRECISION.match(template, at)
    if match is not None:
        precision, at = _parse_precision(match[1]), match.end()
        if at == len(template):
            raise _unreadable("could not find end of precision specifier")
    if template[at] not in _VERBS:
        raise _unreadable(f'unrecognized formatting clause "{template[at]}"')
    return Clause(template[at], precision), at + 1


def _parse_precision(digits: str) -> int:
    significant = digits.lstrip("0")
    if not digits or len(significant) > 19 or int(significant or "0") > _LARGEST_PRECISION:
        raise _unreadable(f'error while parsing precision: "{digits}" is no precision')
    return int(significant or "0")


def _unreadable(problem: str) -> EvaluationError:
    return EvaluationError(f"could not parse formatting clause: {problem}")


def _write_clause(out: _Output, clause: Clause, value: Any) -> None:
    match clause.verb:
        case "s":
            _write_string(out, value)
        case "d":
            out.write(_decimal(value))
        case "f":
            out.write(_fixed(value, clause.precision))
        case "e":
            out.write(_scientific(value, clause.precision))
        case "b":
            out.write(_binary(value))
        case "o":
            out.write(_octal(value))
        case verb:
            out.write(_hexadecimal(value, verb))


def _write_string(out: _Output, value: Any) -> None:
    """Alone, a value stands as string() makes it; within a list or map, as a literal."""
    if isinstance(value, str):
        out.write(value)
    elif isinstance(value, float):
        out.write(doubles.shortest(value))
    elif isinstance(value, Duration | Timestamp):
        out.write(str(value))
    elif isinstance(value, bytes):
        out.write(conversions.text_of_bytes(value))
    else:
        _write_literal(out, value)


def _write_literal(out: _Output, value: Any) -> None:
    if isinstance(value, list):
        _write_list(out, value)
    elif isinstance(value, dict):
        _write_map(out, value)
    elif (literal := _LITERALS.get(type(value))) is not None:
        out.write(literal(value))
    else:
        raise _unfit(_STRING_RULE, value)


def _null(_value: None) -> str:
    return "null"


def _literal_double(value: float) -> str:
    text = doubles.fixed(value, _DEFAULT_PRECISION)
    return text if math.isfinite(value) else f'"{text}"'


def _literal_bytes(value: bytes) -> str:
    return f"b{quote(conversions.text_of_bytes(value))}"


def _literal_duration(value: Duration) -> str:
    return f'duration("{value}")'


def _literal_timestamp(value: Timestamp) -> str:
    return f'timestamp("{value}")'


def _name(value: TypeValue) -> str:
    return value.name


_LITERALS: Final[dict[type, Callable[[Any], str]]] = {
    type(None): _null,
    bool: conversions.text_of_bool,
    int: str,
    Uint: str,
    float: _literal_double,
    str: quote,
    bytes: _literal_bytes,
    Duration: _literal_duration,
    Timestamp: _literal_timestamp,
    TypeValue: _name,
}


def _write_list(out: _Output, items: list[Any]) -> None:
    out.write("[")
    for index, item in enumerate(items):
        if index:
            out.write(", ")
        _write_literal(out, item)
    out.write("]")


def _write_map(out: _Output, mapping: dict[Any, Any]) -> None:
    """In the order of the keys as they are written."""
    out.write("{")
    entries = sorted(((_key(key), value) for key, value in mapping.items()), key=itemgetter(0))
    for index, (key, value) in enumerate(entries):
        out.write(f", {key}:" if index else f"{key}:")
        _write_literal(out, value)
    out.write("}")


def _key(key: Any) -> str:
    match key:
        case str():
            return quote(key)
        case BoolKey():
            return conversions.text_of_bool(key.value)
        case int():
            return str(int(key))
    raise EvaluationError("error during formatting: only strings, bools and integers can be formatted as keys of a map")


def _decimal(value: Any) -> str:
    return str(_integer(value, _DECIMAL_RULE))


def _octal(value: Any) -> str:
    return f"{_integer(value, _OCTAL_RULE):o}"


def _binary(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{_integer(value, _BINARY_RULE):b}"


def _hexadecimal(value: Any, verb: str) -> str:
    if isinstance(value, str):
        value = conversions.bytes_of_text(value)
    if isinstance(value, bytes):
        digits = value.hex()
        return digits.upper() if verb == "X" else digits
    return f"{_integer(value, _HEXADECIMAL_RULE):{verb}}"


def _integer(value: Any, rule: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise _unfit(rule, value)


def _fixed(value: Any, precision: int | None) -> str:
    number = _double(value, _FIXED_RULE)
    if precision is None:
        precision = _DEFAULT_PRECISION
    if precision >= _TOO_PRECISE:
        return "%!(NOVERB)"
    if not math.isfinite(number):
        return _not_finite(number)
    magnitude, places = abs(number), _int16(precision)
    digits = doubles.plain(magnitude) if places < 0 else doubles.fixed(magnitude, min(places, _MOST_PLACES))
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0").ljust(precision & 0xFF, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{int(whole):,}.{fraction}" if fraction else f"{sign}{int(whole):,}"


def _scientific(value: Any, precision: int | None) -> str:
    number = _double(value, _SCIENTIFIC_RULE)
    width = _DEFAULT_PRECISION if precision is None else precision
    if width >= _TOO_PRECISE:
        return "%!(NOVERB)"
    if not math.isfinite(number):
        return _not_finite(number).rjust(width & 0xFFFF)
    mantissa, _, exponent = f"{abs(number):.{_DEFAULT_PRECISION}e}".partition("e")
    sign = "-" if number < 0 else ""
    power = exponent.lstrip("+").translate(_SUPERSCRIPTS)
    return f"{sign}{mantissa}{_TIMES_TEN}{power}".rjust(width & 0xFFFF)


def _double(value: Any, rule: str) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value in _NUMBERS_IN_WORDS:
        return float(value)
    raise _unfit(rule, value)


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _int16(value: int) -> int:
    return ((value + (1 << 15)) & 0xFFFF) - (1 << 15)


def _unfit(rule: str, value: Any) -> EvaluationError:
    return EvaluationError(f"error during formatting: {rule}, was given {type_of(value).name}")
