"""Functions of lists and sets."""

from collections.abc import Callable
from typing import Any, Final

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.runtime import arithmetic
from gpusharing.cel.runtime.equality import includes, same
from gpusharing.cel.runtime.faults import no_such_overload
from gpusharing.cel.runtime.lists import LONGEST, check_length
from gpusharing.cel.runtime.ordering import is_ordered, order
from gpusharing.cel.runtime.sorting import sorted_indices


def is_sorted(items: list[Any]) -> bool:
    for at, item in enumerate(items):
        if not is_ordered(item):
            no_such_overload()
        if at and _order_or_zero(items[at - 1], item) > 0:
            return False
    return True


def smallest(items: list[Any]) -> Any:
    return _extreme(items, "min", 1)


def largest(items: list[Any]) -> Any:
    return _extreme(items, "max", -1)


def sum_from(zero: Any) -> Callable[[list[Any]], Any]:
    def total(items: list[Any]) -> Any:
        result = zero
        for item in items:
            result = arithmetic.add(result, item)
        return result

    return total


def index_of(items: list[Any], value: Any) -> int:
    if type(value) is str:
        return items.index(value) if value in items else -1
    return next((at for at, item in enumerate(items) if same(item, value) is True), -1)


def last_index_of(items: list[Any], value: Any) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if same(items[at], value) is True), -1)


def has_or_is(target: Any, value: Any, most: int | None) -> bool:
    """`includes()` of a list, or of a single value as if it were a list of one."""
    items = target if isinstance(target, list) else (target,)
    if any(same(item, value) is True for item in items[:most]):
        return True
    if most is not None and len(items) > most:
        raise EvaluationError(f"'includes' function cannot be applied to lists longer than {most} values")
    return False


def part(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def flatten_once(items: list[Any]) -> list[Any]:
    return flatten(items, 1)


def flatten(items: list[Any], depth: int) -> list[Any]:
    if not isinstance(items, list) or type(depth) is not int:
        no_such_overload()
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    # A stack of our own: lists may be nested deeper than Python's calls.
    pending = [(iter(items), depth)]
    while pending:
        rest, levels = pending[-1]
        for item in rest:
            if isinstance(item, list) and levels:
                pending.append((iter(item), levels - 1))
                break
            flat.append(item)
        else:
            pending.pop()
        check_length(len(flat))
    return flat


def sort(items: Any) -> list[Any]:
    if not isinstance(items, list):
        no_such_overload()
    return sort_by_keys(items, items)


def sort_by_keys(items: Any, keys: Any) -> list[Any]:
    if not isinstance(items, list):
        no_such_overload()
    if len(items) != len(keys):
        raise EvaluationError(f"a list of {len(items)} items cannot be sorted by {len(keys)} keys")
    if not items:
        return items
    first = keys[0]
    if not is_ordered(first):
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(first) for key in keys):
        raise EvaluationError("list elements must have the same type")
    indices = sorted_indices(len(keys), lambda one, other: _order_or_zero(keys[one], keys[other]) < 0)
    return [items[index] for index in indices]


def number_range(length: int) -> list[int]:
    if length < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {length}")
    if length > LONGEST:
        raise EvaluationError(f"lists.range: size {length} exceeds maximum allowed ({LONGEST})")
    return list(range(length))


def unlimited_range(length: int) -> list[int]:
    """Up to Kubernetes 1.36, where only the price of a long list is too high."""
    check_length(length)
    return list(range(length))


def reverse(items: list[Any]) -> list[Any]:
    return items[::-1]


def distinct(items: list[Any]) -> list[Any]:
    if len(items) * len(items) > _MOST_COMPARISONS:
        raise BudgetError(f"distinct() of {len(items)} items")
    unique: list[Any] = []
    for item in items:
        if not includes(unique, item):
            unique.append(item)
    return unique if items else items


_MOST_COMPARISONS: Final = 2_000_000
"""More than any evaluation may cost."""


def contains_all(items: list[Any], others: list[Any]) -> bool:
    return all(includes(items, other) for other in others)


def contain_each_other(one: list[Any], other: list[Any]) -> bool:
    return contains_all(one, other) and contains_all(other, one)


def intersect(one: list[Any], other: list[Any]) -> bool:
    return any(includes(other, item) for item in one)


def _extreme(items: list[Any], function: str, replaces: int) -> Any:
    """The comparison's errors, such as with NaN, change nothing."""
    if not items:
        raise EvaluationError(f"{function} called on empty list")
    if not all(map(is_ordered, items)):
        no_such_overload()
    result = items[0]
    for item in items[1:]:
        if _order_or_zero(result, item) == replaces:
            result = item
    return result


def _order_or_zero(left: Any, right: Any) -> int:
    try:
        return order(left, right)
    except EvaluationError:
        return 0
