"""Conversions between CEL's simple types."""

import math
import re
from typing import Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values import utf8
from gpusharing.cel.values.bounds import check_numeral
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.quoting import excerpt

_SIGNED: Final = re.compile(r"([-+]?)0*([0-9]{1,19})")
_UNSIGNED: Final = re.compile(r"0*([0-9]{1,20})")
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))
_SMALLEST_INT: Final = -(1 << 63)
_LARGEST_INT: Final = (1 << 63) - 1
_LARGEST_UINT: Final = (1 << 64) - 1


def int_of_text(text: str) -> int:
    check_numeral(text)
    match = _SIGNED.fullmatch(text)
    if match is None:
        raise EvaluationError(f"{excerpt(text)} is no int")
    return _int(int(match[1] + match[2]))


def int_of_double(number: float) -> int:
    """Toward zero. Of the numbers at the limits Kubernetes takes neither, though one of them fits."""
    if not -(2.0**63) < number < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(number)


def int_of_uint(number: int) -> int:
    return _int(int(number))


def uint_of_text(text: str) -> Uint:
    check_numeral(text)
    match = _UNSIGNED.fullmatch(text)
    if match is None:
        raise EvaluationError(f"{excerpt(text)} is no uint")
    return _uint(int(match[1]))


def uint_of_double(number: float) -> Uint:
    if not 0 <= number < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(math.trunc(number))


def uint_of_int(number: int) -> Uint:
    return _uint(number)


def bool_of_text(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise EvaluationError(f"{excerpt(text)} is no bool")


def text_of_bool(value: bool) -> str:
    return "true" if value else "false"


def text_of_bytes(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def bytes_of_text(text: str) -> bytes:
    return utf8.encoded(text)


def _int(number: int) -> int:
    if not _SMALLEST_INT <= number <= _LARGEST_INT:
        raise EvaluationError("integer overflow")
    return number


def _uint(number: int) -> Uint:
    if not 0 <= number <= _LARGEST_UINT:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)
