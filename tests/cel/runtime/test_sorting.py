"""The order in which Go's sort leaves items."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.runtime.sorting import sorted_indices


@given(st.lists(st.integers(0, 20), max_size=120))
def test_sorting_gives_the_items_in_order(keys: list[int]) -> None:
    indices = sorted_indices(len(keys), lambda one, other: keys[one] < keys[other])
    assert sorted(indices) == list(range(len(keys)))
    assert [keys[index] for index in indices] == sorted(keys)


@given(st.lists(st.integers(0, 5), max_size=12))
def test_short_lists_are_sorted_stably(keys: list[int]) -> None:
    indices = sorted_indices(len(keys), lambda one, other: keys[one] < keys[other])
    assert indices == sorted(range(len(keys)), key=keys.__getitem__)


@pytest.mark.parametrize("length", [13, 49, 50, 51, 200, 700])
def test_long_lists_of_all_shapes_are_sorted(length: int) -> None:
    random = Random(length)  # noqa: S311 (the same lists in every run)
    shapes = [
        list(range(length)),
        list(range(length, 0, -1)),
        [0] * length,
        [index % 7 for index in range(length)],
        [random.randrange(length) for _ in range(length)],
        [*range(length - 3), 2, 1, 0],
    ]
    for keys in shapes:
        indices = sorted_indices(len(keys), lambda one, other: keys[one] < keys[other])  # noqa: B023 (used at once)
        assert [keys[index] for index in indices] == sorted(keys)
