"""What a quantity comes to, in one of the two forms that Kubernetes keeps: small or big."""

from typing import Final

from gpusharing.cel.errors import BudgetError

_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 63) - 1
# Kubernetes knows no limit. So many digits are nobody's capacity, only somebody's attack.
MOST_DIGITS: Final = 2000
_BITS_PER_DIGIT: Final = 3  # a little more, in truth


class Amount:
    """unscaled * 10**exponent."""

    __slots__ = ("big", "exponent", "unscaled")

    def __init__(self, unscaled: int, exponent: int, *, big: bool) -> None:
        self.unscaled = unscaled
        self.exponent = exponent
        self.big = big


def int64(amount: Amount) -> int | None:
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


def shifted_by(unscaled: int, shift: int) -> int:
    """unscaled * 10**shift."""
    if shift == 0 or unscaled == 0:
        return unscaled
    if shift + unscaled.bit_length() // _BITS_PER_DIGIT > MOST_DIGITS:
        raise BudgetError(f"a quantity of more than {MOST_DIGITS} digits")
    shifted: int = unscaled * 10**shift
    return shifted


def compare(one: Amount, other: Amount) -> int:
    mine, its = one.unscaled, other.unscaled
    shift = one.exponent - other.exponent
    if shift and mine and its:
        if abs(shift) > MOST_DIGITS:
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


def total(one: Amount, other: Amount) -> Amount:
    if not one.big and not other.big:
        small = _small_sum(one, other)
        if small is not None:
            return small
    exponent = min(one.exponent, other.exponent)
    mine = shifted_by(one.unscaled, one.exponent - exponent)
    its = shifted_by(other.unscaled, other.exponent - exponent)
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


def difference(one: Amount, other: Amount) -> Amount:
    if not one.big and not other.big:
        # The smallest integer has no counterpart: its negative is itself, in Kubernetes' sum as well.
        negative = other.unscaled if other.unscaled == _SMALLEST else -other.unscaled
        small = _small_sum(one, Amount(negative, other.exponent, big=False))
        if small is not None:
            return small
    return total(one, Amount(-other.unscaled, other.exponent, big=True))
