"""How Kubernetes writes quantities: in the form in which they came, with a suffix where there is one."""

from enum import Enum
from typing import Final

POWERS_OF_TEN: Final = {
    "": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
POWERS_OF_TWO: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in POWERS_OF_TEN.items()}
_BINARY_SUFFIXES: Final = {exponent: suffix for suffix, exponent in POWERS_OF_TWO.items()}
_KIBI: Final = 1024


class Form(Enum):
    DECIMAL = "80G"
    BINARY = "80Gi"
    EXPONENT = "80e9"


def text(unscaled: int, exponent: int, form: Form) -> str:
    """unscaled * 10**exponent. An exponent for which there is no suffix is lost, as it is in Kubernetes."""
    if unscaled == 0:
        return "0"
    if form is Form.BINARY and (whole := _whole(unscaled, exponent)) is not None and abs(whole) >= _KIBI:
        number, times = _without(_KIBI, whole)
        return f"{number}{_BINARY_SUFFIXES.get(10 * times, '')}"
    number, times = _without(10, unscaled)
    exponent += times
    number *= 10 ** (exponent % 3)
    exponent -= exponent % 3
    if form is Form.EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIXES.get(exponent, '')}"


def _whole(unscaled: int, exponent: int) -> int | None:
    if exponent >= 0:
        whole: int = unscaled * 10**exponent
        return whole
    whole, rest = divmod(unscaled, 10**-exponent)
    return None if rest else whole


def _without(factor: int, number: int) -> tuple[int, int]:
    times = 0
    while number % factor == 0:
        number //= factor
        times += 1
    return number, times
