"""Amounts of memory: as policies and the API write them, and in mebibytes, which is how we count them."""

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

_PERCENTAGE: Final = re.compile(r"([1-9][0-9]*)%")
_AMOUNT: Final = re.compile(r"[0-9]+(Mi|Gi|Ti)")
# Of a quantity as the API server may store it. It keeps at most 18 digits before the point and 9 behind; what is longer
# is nobody's amount.
_QUANTITY: Final = re.compile(
    r"([0-9]{1,32}(?:\.[0-9]{0,32})?|\.[0-9]{1,32})(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,2}))?"
)
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FACTORS: Final = {
    suffix: Fraction(base) ** power
    for base, first, suffixes in (
        (1024, 1, _BINARY),
        (1000, -3, ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")),
    )
    for power, suffix in enumerate(suffixes, start=first)
}
_MEBIBYTE: Final = 1024**2


@lru_cache(1024)  # A fleet has few different ones, and they are read for each GPU.
def mebibytes(text: str, *, of: int = 0) -> int:
    """Of "8Gi", or of "25%", which is a part of so many mebibytes, rounded down but at least one."""
    if percentage := _PERCENTAGE.fullmatch(text):
        return max(1, of * int(percentage[1]) // 100)
    if not _AMOUNT.fullmatch(text):
        raise ValueError(f"{text!r} is not an amount of memory such as 8Gi")
    return whole_mebibytes(text)


def whole_mebibytes(quantity: str) -> int:
    """Of any quantity of bytes, rounded down."""
    return int(exact(quantity) / _MEBIBYTE)


def whole(quantity: str) -> int:
    """Of any quantity, rounded down."""
    return int(exact(quantity))


@lru_cache(1024)  # What the claims of a GPU have is added up for each that comes.
def exact(quantity: str) -> Fraction:
    """Of any quantity."""
    found = _QUANTITY.fullmatch(quantity)
    if found is None:
        raise ValueError(f"{quantity[:64]!r} is not a quantity such as 8Gi")
    digits, suffix, exponent = found.groups()
    return Fraction(digits) * (Fraction(10) ** int(exponent) if exponent else _FACTORS[suffix or ""])


def canonical(amount: str) -> str:
    """An amount of memory ("1024Mi") as the API server stores it ("1Gi")."""
    number, unit = int(amount[:-2]), amount[-2:]
    while number % 1024 == 0 and unit != _BINARY[-1]:
        number, unit = number // 1024, _BINARY[_BINARY.index(unit) + 1]
    return f"{number}{unit}"


@lru_cache(1024)
def billionths(quantity: str) -> int:
    """Of any quantity, also a negative one, in the finest unit that the API server keeps, rounded as it does."""
    amount = math.ceil(exact(quantity.removeprefix("-")) * 10**9)
    return -amount if quantity.startswith("-") else amount


def from_billionths(amount: int) -> str:
    """As a quantity: whole if it is, otherwise in the largest unit that needs no point."""
    for suffix, unit in (("", 10**9), ("m", 10**6), ("u", 10**3)):
        if amount % unit == 0:
            return f"{amount // unit}{suffix}"
    return f"{amount}n"


@lru_cache(1024)
def are_equal(first: str, second: str) -> bool:
    """Whether both are the same amount, however they are written. What is no quantity equals only itself."""
    try:
        return first == second or exact(first) == exact(second)
    except ValueError:
        return False


def in_mebibytes(amount: int) -> str:
    return f"{amount}Mi"
