"""Functions of lists."""

import math
from typing import Any, Final

import pytest

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.runtime import listing, optionals
from gpusharing.cel.values import semver
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional

VERSION: Final = semver.parse("1.2.3")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: listing.is_sorted([1, 2, 2]), True),
        (lambda: listing.is_sorted([2, 1, VERSION]), False),
        (lambda: listing.is_sorted([1, VERSION]), EvaluationError),
        (lambda: listing.is_sorted([math.nan, 1.0]), True),
        (lambda: listing.smallest([2, 1, "a"]), 1),
        (lambda: listing.smallest([2, VERSION]), EvaluationError),
        (lambda: listing.largest([1.0, math.nan, 2.0]), 2.0),
        (lambda: listing.largest([]), EvaluationError),
        (lambda: listing.sum_from(0)([]), 0),
        (lambda: listing.sum_from(0)([1, "a"]), EvaluationError),
        (lambda: listing.sum_from(Uint(0))([Uint(1), Uint(2)]), 3),
        (lambda: listing.index_of(["a", "b", "b"], "b"), 1),
        (lambda: listing.index_of([1, 2.0], 2), 1),
        (lambda: listing.last_index_of([1, 1.0, 2], 1), 1),
        (lambda: listing.index_of([VERSION], "a"), -1),
        (lambda: listing.has_or_is([1, 2], 2.0, None), True),
        (lambda: listing.has_or_is("a", "a", None), True),
        (lambda: listing.has_or_is(VERSION, "a", None), False),
        (lambda: listing.has_or_is(list(range(49)), 50, 48), EvaluationError),
        (lambda: listing.has_or_is(list(range(49)), 3, 48), True),
        (lambda: listing.part([1, 2, 3], 1, 3), [2, 3]),
        (lambda: listing.part([1, 2, 3], 2, 1), EvaluationError),
        (lambda: listing.part([1, 2, 3], -1, 1), EvaluationError),
        (lambda: listing.part([1, 2, 3], 0, 4), EvaluationError),
        (lambda: listing.flatten([1, [2, [3, [4]]]], 0), [1, [2, [3, [4]]]]),
        (lambda: listing.flatten([1, [2, [3, [4]]]], 2), [1, 2, 3, [4]]),
        (lambda: listing.flatten([1, [2]], -1), EvaluationError),
        (lambda: listing.flatten_once([[], [[1]], [2]]), [[1], 2]),
        (lambda: listing.sort([3, 1, 2]), [1, 2, 3]),
        (lambda: listing.sort([3, 1.0]), EvaluationError),
        (lambda: listing.sort([VERSION]), EvaluationError),
        (lambda: listing.sort("abc"), EvaluationError),
        (lambda: listing.sort_by_keys(["a", "b"], [2, 1]), ["b", "a"]),
        (lambda: listing.distinct([1, 1.0, "a", "a", True]), [1, "a", True]),
        (lambda: listing.reverse([1, 2]), [2, 1]),
        (lambda: listing.number_range(3), [0, 1, 2]),
        (lambda: listing.number_range(-1), EvaluationError),
        (lambda: listing.number_range(1_000_001), EvaluationError),
        (lambda: listing.unlimited_range(-1), []),
        (lambda: listing.unlimited_range(1_000_001), BudgetError),
        (lambda: listing.contains_all([1, 2], [1.0]), True),
        (lambda: listing.contains_all([1, 2], [3]), False),
        (lambda: listing.contain_each_other([1, 2], [2, 1, 1]), True),
        (lambda: listing.intersect([1, 2], [2.0, 3]), True),
        (lambda: listing.intersect([], [1]), False),
        (lambda: optionals.first([]), NONE),
        (lambda: optionals.last([1, 2]), Optional(2)),
        (lambda: optionals.unwrap([Optional(1), NONE]), [1]),
        (lambda: optionals.unwrap([1]), EvaluationError),
    ],
)
def test_functions_of_lists(call: Any, expected: Any) -> None:
    if isinstance(expected, type):
        with pytest.raises(expected):
            call()
    else:
        assert call() == expected


def test_lists_deeper_than_pythons_calls_can_be_flattened() -> None:
    deep: list[Any] = [1]
    for _ in range(5000):
        deep = [deep]
    assert listing.flatten(deep, 10_000) == [1]
