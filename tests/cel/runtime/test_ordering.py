"""Which values have an order."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cel.values_at_random import QUANTITY, VERSION, ints, numbers, uints
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import equality, ordering


@given(ints | uints, ints | uints)
def test_integers_are_ordered_whatever_their_signs(one: int, other: int) -> None:
    assert ordering.less(one, other) is (int(one) < int(other))
    assert ordering.greater_or_equal(one, other) is (int(one) >= int(other))


@given(numbers, numbers)
def test_numbers_of_all_types_are_ordered_unless_one_is_none(one: float, other: float) -> None:
    if math.isnan(one) or math.isnan(other):
        with pytest.raises(EvaluationError, match="NaN"):
            ordering.order(one, other)
    else:
        assert ordering.order(one, other) == -ordering.order(other, one)
        assert (ordering.order(one, other) == 0) is equality.equal(one, other)


@given(st.text(), st.text())
def test_strings_are_ordered_like_their_bytes(one: str, other: str) -> None:
    assert ordering.less(one, other) is (one.encode() < other.encode())


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, "a"), ("a", 1), (True, 1), (None, None), ([1], [2]), (VERSION, VERSION), (QUANTITY, QUANTITY), (b"a", "a")],
)
def test_other_values_have_no_order(left: Any, right: Any) -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        ordering.order(left, right)
