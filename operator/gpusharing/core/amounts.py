"""Amounts of memory: as policies and the API write them, and in mebibytes, which is how we count them."""

import re
from fractions import Fraction
from typing import Final

_PERCENTAGE: Final = re.compile(r"([1-9][0-9]*)%")
_AMOUNT: Final = re.compile(r"([0-9]+)(Mi|Gi|Ti)")
_MEBIBYTES: Final = {"Mi": 1, "Gi": 1024, "Ti": 1024**2}


def mebibytes(text: str, *, of: int = 0) -> int:
    """Of "8Gi", or of "25%", which is a part of so many mebibytes, rounded down but at least one."""
    if percentage := _PERCENTAGE.fullmatch(text):
        return max(1, of * int(percentage[1]) // 100)
    amount = _AMOUNT.fullmatch(text)
    if amount is None:
        raise ValueError(f"{text!r} is not an amount of memory such as 8Gi")
    return int(amount[1]) * _MEBIBYTES[amount[2]]


_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTPE]i|[kMGTPE]|)")
_BYTES: Final = {
    suffix: base**power
    for base, suffixes in ((1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")), (1000, ("", "k", "M", "G", "T", "P", "E")))
    for power, suffix in enumerate(suffixes)
}


def whole_mebibytes(quantity: str) -> int:
    """Of any quantity of bytes, rounded down."""
    found = _QUANTITY.fullmatch(quantity)
    if found is None:
        raise ValueError(f"{quantity!r} is not a quantity such as 8Gi")
    return int(Fraction(found[1]) * _BYTES[found[2]]) // 1024**2


def in_mebibytes(amount: int) -> str:
    return f"{amount}Mi"
