"""Sums of lists."""

import pytest

from gpusharing.cel.errors import BudgetError
from gpusharing.cel.runtime.lists import LONGEST, GrowingList, JoinedList, added


def test_sums_of_lists_are_what_cel_go_makes_of_them() -> None:
    one, other = [1], [2]
    assert added(one, []) is one
    assert added([], other) is other
    joined = added(one, other)
    assert type(joined) is JoinedList
    assert (joined, one) == ([1, 2], [1])
    growing = GrowingList()
    assert added(growing, [1]) is growing
    assert added(growing, [2]) == [1, 2]
    with pytest.raises(BudgetError):
        added([0] * LONGEST, [0])
