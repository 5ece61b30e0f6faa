"""Kubernetes' resource quantities, such as "80Gi", with the peculiarities that CEL can observe.

Kubernetes keeps a quantity in one of two forms: small (a 64 bit integer and a power of ten) or big (any decimal).
A big quantity never counts as an integer, whatever its value, and some operations make a small one big for good.
"""

import math
import re
from typing import Final

from gpusharing.cel.errors import BudgetError, EvaluationError

_GRAMMAR: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT: Final = re.compile(r"[eE]([-+]?)0*([0-9]{1,19})")
_POWERS_OF_TEN: Final = {
    "": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_POWERS_OF_TWO: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"

_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 63) - 1
_NANO: Final = -9
# A decimal of 18 digits fits 64 bits; binary ones are taken for small up to 14 digits, the suffix counted in.
_DECIMAL_DIGITS: Final = 18
_BINARY_DIGITS: Final = 14
# Kubernetes knows no limits. So many digits are nobody's capacity, only somebody's attack.
_MOST_DIGITS_READ: Final = 1000
_MOST_DIGITS: Final = 2000
_BITS_PER_DIGIT: Final = 3  # a little more, in truth


class Amount:
    """unscaled * 10**exponent."""

    __slots__ = ("big", "exponent", "unscaled")

    def __init__(self, unscaled: int, exponent: int, *, big: bool) -> None:
        self.unscaled = unscaled
        self.exponent = exponent
        self.big = big


class Quantity:
    """`is_sum`: it came from add() or sub(); Kubernetes refuses such a quantity on the right of `==`.

    Not immutable, as in Kubernetes: whoever evaluates an expression that may change a quantity, or that can tell a
    small one from a big one, takes a `copy` of those that other evaluations use too: that is as the quantity once was.
    """

    __slots__ = ("_original", "amount", "is_sum")

    def __init__(self, amount: Amount, *, is_sum: bool = False) -> None:
        self.amount = amount
        self._original = amount
        self.is_sum = is_sum

    @classmethod
    def of(cls, integer: int) -> "Quantity":
        return cls(Amount(integer, 0, big=False))

    def copy(self) -> "Quantity":
        amount = self._original
        return Quantity(Amount(amount.unscaled, amount.exponent, big=amount.big), is_sum=self.is_sum)

    def compare(self, other: "Quantity") -> int:
        """-1, 0 or 1. Whatever is compared with a big quantity becomes big."""
        mine, its = self.amount, other.amount
        if its.big and not mine.big:
            self.amount = Amount(mine.unscaled, mine.exponent, big=True)
        return _compare(mine, its)

    def is_greater(self, other: "Quantity") -> bool:
        return self.compare(other) > 0

    def is_less(self, other: "Quantity") -> bool:
        return self.compare(other) < 0

    def equals(self, other: "Quantity") -> bool:
        """Unlike `compare`, this leaves the quantity as it is."""
        return _compare(self.amount, other.amount) == 0

    def sign(self) -> int:
        unscaled = self.amount.unscaled
        return (unscaled > 0) - (unscaled < 0)

    def is_integer(self) -> bool:
        return _integer(self.amount) is not None

    def as_integer(self) -> int:
        integer = _integer(self.amount)
        if integer is None:
            raise EvaluationError("cannot convert value to integer")
        return integer

    def as_float(self) -> float:
        amount = self.amount
        try:
            base = float(amount.unscaled)
        except OverflowError:
            base = math.inf if amount.unscaled > 0 else -math.inf
        return base * _power_of_ten(amount.exponent) if amount.exponent else base

    def add(self, other: "Quantity") -> "Quantity":
        return Quantity(_sum(self.amount, other.amount), is_sum=True)

    def subtract(self, other: "Quantity") -> "Quantity":
        return Quantity(_difference(self.amount, other.amount), is_sum=True)

    def add_in_place(self, other: "Quantity") -> "Quantity":
        """Up to Kubernetes 1.36, a big quantity itself became the sum, and shared it with the result."""
        return self._replaced(_sum(self.amount, other.amount))

    def subtract_in_place(self, other: "Quantity") -> "Quantity":
        return self._replaced(_difference(self.amount, other.amount))

    def _replaced(self, result: Amount) -> "Quantity":
        amount = self.amount
        if not amount.big:
            return Quantity(result, is_sum=True)
        amount.unscaled, amount.exponent = result.unscaled, result.exponent
        return Quantity(amount, is_sum=True)


def is_quantity(text: str) -> bool:
    try:
        _read(text)
    except EvaluationError:
        return False
    return True


def parse(text: str) -> Quantity:
    return Quantity(_read(text).amount())


class _Numeral:
    """The parts of a well-formed quantity: (-)digits * 10**-places * base**exponent."""

    __slots__ = ("base", "digits", "exponent", "is_negative", "places")

    def __init__(self, *, is_negative: bool, digits: str, places: int, base: int, exponent: int) -> None:
        self.is_negative = is_negative
        self.digits = digits
        self.places = places
        self.base = base
        self.exponent = exponent

    def is_small(self) -> bool:
        if self.base == 2:
            return not self.places and len(self.digits) + self.exponent * 3 // 10 <= _BINARY_DIGITS
        return len(self.digits) <= _DECIMAL_DIGITS and _int32(self.exponent - self.places) >= _NANO

    def amount(self) -> Amount:
        if self.is_small():
            unscaled = int(self.digits)
            if self.base == 2:
                return Amount(self._signed(unscaled << self.exponent), 0, big=False)
            return Amount(self._signed(unscaled), _int32(self.exponent - self.places), big=False)
        if len(self.digits) > _MOST_DIGITS_READ:
            raise BudgetError(f"a quantity of more than {_MOST_DIGITS_READ} digits")
        unscaled = int(self.digits)
        if self.base == 10:
            return self._rounded(unscaled, _int32(self.exponent - self.places))
        rounded = self._rounded(unscaled << self.exponent, -self.places)
        if abs(rounded.unscaled) > _LARGEST * 10**9:
            return Amount(self._signed(_LARGEST), 0, big=True)
        return rounded

    def _rounded(self, unscaled: int, exponent: int) -> Amount:
        """Away from zero, to nano: who asks for something gets something."""
        if unscaled == 0:
            return Amount(0, exponent, big=True)
        shift = exponent - _NANO
        if shift >= 0:
            return Amount(self._signed(_shifted(unscaled, shift)), _NANO, big=True)
        # More places than there are digits leave nothing but the rounding.
        divisor = 10 ** min(-shift, _MOST_DIGITS)
        return Amount(self._signed(-(-unscaled // divisor)), _NANO, big=True)

    def _signed(self, value: int) -> int:
        return -value if self.is_negative else value


def _read(text: str) -> _Numeral:
    match = _GRAMMAR.fullmatch(text) if text else None
    if match is None:
        raise EvaluationError(_WRONG_FORMAT)
    sign, whole, fraction, suffix = match.groups("")
    base, exponent = _interpreted(suffix)
    numeral = _Numeral(
        is_negative=sign == "-",
        digits=(whole.lstrip("0") or "0") + fraction,
        places=len(fraction),
        base=base,
        exponent=exponent,
    )
    # Without any digit a quantity is 0, as in "m", but only where Kubernetes takes the short way to read it.
    if not whole and not fraction and not numeral.is_small():
        raise EvaluationError(_WRONG_NUMBER)
    return numeral


def _interpreted(suffix: str) -> tuple[int, int]:
    if suffix in _POWERS_OF_TEN:
        return 10, _POWERS_OF_TEN[suffix]
    if suffix in _POWERS_OF_TWO:
        return 2, _POWERS_OF_TWO[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not _SMALLEST <= (exponent := int(match[1] + match[2])) <= _LARGEST:
        raise EvaluationError(_WRONG_SUFFIX)
    return 10, _int32(exponent)


def _int32(value: int) -> int:
    """Kubernetes' exponents wrap around."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def _integer(amount: Amount) -> int | None:
    if amount.big or amount.exponent < 0:
        return None
    return _fitting(amount.unscaled, amount.exponent)


def _fitting(unscaled: int, shift: int) -> int | None:
    """unscaled * 10**shift if it is one of 64 bits."""
    if shift == 0 or unscaled == 0:
        return unscaled
    if shift >= 19:
        return None
    value: int = unscaled * 10**shift
    return value if _SMALLEST <= value <= _LARGEST else None


def _shifted(unscaled: int, shift: int) -> int:
    """unscaled * 10**shift."""
    if shift == 0 or unscaled == 0:
        return unscaled
    if shift + unscaled.bit_length() // _BITS_PER_DIGIT > _MOST_DIGITS:
        raise BudgetError(f"a quantity of more than {_MOST_DIGITS} digits")
    shifted: int = unscaled * 10**shift
    return shifted


def _compare(one: Amount, other: Amount) -> int:
    mine, its = one.unscaled, other.unscaled
    shift = one.exponent - other.exponent
    if shift and mine and its:
        if abs(shift) > _MOST_DIGITS:
            # The other one is nothing beside the one with the larger exponent.
            if shift > 0:
                its = 0
            else:
                mine = 0
        elif shift > 0:
            mine *= 10**shift
        else:
            its *= 10**-shift
    return (mine > its) - (mine < its)


def _sum(one: Amount, other: Amount) -> Amount:
    if not one.big and not other.big:
        small = _small_sum(one, other)
        if small is not None:
            return small
    exponent = min(one.exponent, other.exponent)
    mine = _shifted(one.unscaled, one.exponent - exponent)
    its = _shifted(other.unscaled, other.exponent - exponent)
    return Amount(mine + its, exponent, big=True)


def _small_sum(one: Amount, other: Amount) -> Amount | None:
    if other.unscaled == 0:
        return Amount(one.unscaled, one.exponent, big=False)
    if one.unscaled == 0:
        return Amount(other.unscaled, other.exponent, big=False)
    exponent = min(one.exponent, other.exponent)
    mine = _fitting(one.unscaled, one.exponent - exponent)
    its = _fitting(other.unscaled, other.exponent - exponent)
    if mine is None or its is None or not _SMALLEST <= mine + its <= _LARGEST:
        return None
    return Amount(mine + its, exponent, big=False)


def _difference(one: Amount, other: Amount) -> Amount:
    if not one.big and not other.big:
        # The smallest integer has no counterpart: its negative is itself, in Kubernetes' sum as well.
        negative = other.unscaled if other.unscaled == _SMALLEST else -other.unscaled
        small = _small_sum(one, Amount(negative, other.exponent, big=False))
        if small is not None:
            return small
    return _sum(one, Amount(-other.unscaled, other.exponent, big=True))


def _power_of_ten(exponent: int) -> float:
    """As Go has it, a product of two, which is not always the nearest to the true power."""
    if exponent > 308:
        return math.inf
    if exponent >= 0:
        return float(f"1e{exponent // 32 * 32}") * float(f"1e{exponent % 32}")
    if exponent >= -323:
        return float(f"1e-{-exponent // 32 * 32}") / float(f"1e{-exponent % 32}")
    return 0.0
