"""Kubernetes' resource quantities, such as "80Gi", with the peculiarities that CEL can observe.

Kubernetes keeps a quantity in one of two forms: small (a 64 bit integer and a power of ten) or big (any decimal).
A big quantity never counts as an integer, whatever its value, and some operations make a small one big for good.
"""

import math

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values.quantity_amount import Amount, compare, difference, int64, total
from gpusharing.cel.values.quantity_form import Form, text
from gpusharing.cel.values.quantity_numeral import read


class Quantity:
    """`is_sum`: it came from add() or sub(); Kubernetes refuses such a quantity on the right of `==`.
    `written`: the text that it was read from, where Kubernetes keeps that.

    Not immutable, as in Kubernetes: whoever evaluates an expression that may change a quantity, or that can tell a
    small one from a big one, takes a `copy` of those that other evaluations use too: that is as the quantity once was.
    """

    __slots__ = ("_original", "_written", "amount", "form", "is_sum")

    def __init__(self, amount: Amount, form: Form, *, is_sum: bool = False, written: str | None = None) -> None:
        self.amount = amount
        self._original = amount
        self.form = form
        self.is_sum = is_sum
        self._written = written

    @classmethod
    def of(cls, integer: int) -> "Quantity":
        return cls(Amount(integer, 0, big=False), Form.DECIMAL)

    def copy(self) -> "Quantity":
        amount = self._original
        copied = Amount(amount.unscaled, amount.exponent, big=amount.big)
        return Quantity(copied, self.form, is_sum=self.is_sum, written=self._written)

    def __str__(self) -> str:
        return self._written or text(self.amount.unscaled, self.amount.exponent, self.form)

    def compare(self, other: "Quantity") -> int:
        """-1, 0 or 1. Whatever is compared with a big quantity becomes big."""
        mine, its = self.amount, other.amount
        if its.big and not mine.big:
            self.amount = Amount(mine.unscaled, mine.exponent, big=True)
        return compare(mine, its)

    def is_greater(self, other: "Quantity") -> bool:
        return self.compare(other) > 0

    def is_less(self, other: "Quantity") -> bool:
        return self.compare(other) < 0

    def equals(self, other: "Quantity") -> bool:
        """Unlike `compare`, this leaves the quantity as it is."""
        return compare(self.amount, other.amount) == 0

    def sign(self) -> int:
        unscaled = self.amount.unscaled
        return (unscaled > 0) - (unscaled < 0)

    def is_integer(self) -> bool:
        return int64(self.amount) is not None

    def as_integer(self) -> int:
        integer = int64(self.amount)
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
        return Quantity(total(self.amount, other.amount), self._form_with(other), is_sum=True)

    def subtract(self, other: "Quantity") -> "Quantity":
        return Quantity(difference(self.amount, other.amount), self._form_with(other), is_sum=True)

    def add_in_place(self, other: "Quantity") -> "Quantity":
        """Up to Kubernetes 1.36, a big quantity itself became the sum, and shared it with the result."""
        return self._replaced(total(self.amount, other.amount), self._form_with(other))

    def subtract_in_place(self, other: "Quantity") -> "Quantity":
        return self._replaced(difference(self.amount, other.amount), self._form_with(other))

    def _replaced(self, result: Amount, form: Form) -> "Quantity":
        amount = self.amount
        if not amount.big:
            return Quantity(result, form, is_sum=True)
        amount.unscaled, amount.exponent = result.unscaled, result.exponent
        return Quantity(amount, form, is_sum=True)

    def _form_with(self, other: "Quantity") -> Form:
        return self.form if self.amount.unscaled else other.form


def is_quantity(written: str) -> bool:
    try:
        read(written)
    except EvaluationError:
        return False
    return True


def parse(written: str) -> Quantity:
    numeral = read(written)
    amount = numeral.amount()
    return Quantity(amount, numeral.form_of(amount), written=written if numeral.is_kept() else None)


def _power_of_ten(exponent: int) -> float:
    """As Go has it, a product of two, which is not always the nearest to the true power."""
    if exponent > 308:
        return math.inf
    if exponent >= 0:
        return float(f"1e{exponent // 32 * 32}") * float(f"1e{exponent % 32}")
    if exponent >= -323:
        return float(f"1e-{-exponent // 32 * 32}") / float(f"1e{-exponent % 32}")
    return 0.0
