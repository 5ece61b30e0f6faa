"""Amounts as people, the scheduler and the API server write them."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpusharing.cel.values import quantity
from gpusharing.core.quantities import mebibytes, whole, whole_mebibytes


@pytest.mark.parametrize("text", ["", "8", "8G", "8gi", "-1Gi", "1.5Gi", "0%", "Gi", " 8Gi", "8Gi\n", "٣Gi"])
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match="is not an amount"):
        mebibytes(text)


digits = st.from_regex(r"[0-9]{1,9}(\.[0-9]{0,4})?|\.[0-9]{1,4}", fullmatch=True)
suffixes = st.sampled_from(["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "m", "k", "M", "G", "T", "P", "E"])
exponents = st.from_regex(r"[eE][+-]?[0-9]", fullmatch=True)


@given(digits, suffixes | exponents)
def test_quantities_are_read_as_kubernetes_reads_them(number: str, unit: str) -> None:
    amount = quantity.parse(number + unit).amount
    exact = amount.unscaled * Fraction(10) ** amount.exponent
    # Kubernetes rounds finer ones up and larger ones down, before it stores them.
    assume(exact.denominator < 10**9 and exact < 2**63 - 1)
    assert whole(number + unit) == math.floor(exact)
    assert whole_mebibytes(number + unit) == math.floor(exact / 2**20)


@pytest.mark.parametrize(
    "text", ["", "Gi", "-1", "+1", ".", "1 Gi", "1gi", "1KI", "1e", "1e999", "1e-999", "9" * 33, "٣", "1\n", "Infinity"]
)
def test_what_is_no_quantity(text: str) -> None:
    for read in (whole, whole_mebibytes):
        with pytest.raises(ValueError, match="is not a quantity"):
            read(text)
