"""Reads quantities, with the peculiarities that CEL can observe."""

import re
from typing import Final

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values.quantity_amount import MOST_DIGITS, Amount, shifted_by
from gpusharing.cel.values.quantity_form import POWERS_OF_TEN, POWERS_OF_TWO, Form

_GRAMMAR: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT: Final = re.compile(r"[eE]([-+]?)0*([0-9]{1,19})")

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


class Numeral:
    """The parts of a well-formed quantity: (-)digits * 10**-places * base**exponent."""

    __slots__ = ("base", "digits", "exponent", "form", "is_negative", "places")

    def __init__(self, *, is_negative: bool, digits: str, places: int, suffix: str) -> None:
        self.is_negative = is_negative
        self.digits = digits
        self.places = places
        self.base, self.exponent, self.form = _interpreted(suffix)

    def is_small(self) -> bool:
        if self.base == 2:
            return not self.places and len(self.digits) + self.exponent * 3 // 10 <= _BINARY_DIGITS
        return len(self.digits) <= _DECIMAL_DIGITS and _int32(self.exponent - self.places) >= _NANO

    def is_kept(self) -> bool:
        """Whether it is written as it was read. Kubernetes takes some for written well that are not."""
        if not self.is_small():
            return False
        if self.base == 2:
            return int(self.digits) % 8 != 0
        is_scaled = _int32(self.exponent - self.places) % 3 == 0
        return is_scaled and self.digits[0] != "0" and not self.digits.endswith("000")

    def form_of(self, amount: Amount) -> Form:
        is_fraction = amount.exponent == _NANO and 0 < abs(amount.unscaled) < 10**-_NANO
        return Form.DECIMAL if self.form is Form.BINARY and is_fraction else self.form

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
            return Amount(self._signed(shifted_by(unscaled, shift)), _NANO, big=True)
        # More places than there are digits leave nothing but the rounding.
        divisor = 10 ** min(-shift, MOST_DIGITS)
        return Amount(self._signed(-(-unscaled // divisor)), _NANO, big=True)

    def _signed(self, value: int) -> int:
        return -value if self.is_negative else value


def read(written: str) -> Numeral:
    match = _GRAMMAR.fullmatch(written) if written else None
    if match is None:
        raise EvaluationError(_WRONG_FORMAT)
    sign, whole, fraction, suffix = match.groups("")
    numeral = Numeral(
        is_negative=sign == "-",
        digits=(whole.lstrip("0") or "0") + fraction,
        places=len(fraction),
        suffix=suffix,
    )
    # Without any digit a quantity is 0, as in "m", but only where Kubernetes takes the short way to read it.
    if not whole and not fraction and not numeral.is_small():
        raise EvaluationError(_WRONG_NUMBER)
    return numeral


def _interpreted(suffix: str) -> tuple[int, int, Form]:
    if suffix in POWERS_OF_TEN:
        return 10, POWERS_OF_TEN[suffix], Form.DECIMAL
    if suffix in POWERS_OF_TWO:
        return 2, POWERS_OF_TWO[suffix], Form.BINARY
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not _SMALLEST <= (exponent := int(match[1] + match[2])) <= _LARGEST:
        raise EvaluationError(_WRONG_SUFFIX)
    return 10, _int32(exponent), Form.EXPONENT


def _int32(value: int) -> int:
    """Kubernetes' exponents wrap around."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
