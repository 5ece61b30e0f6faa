"""What cel-go expects the functions of its extensions for lists and sets to cost."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gpusharing.cel.cost.calls.form import CallEstimate, CallForm, Estimator, Operand, for_each
from gpusharing.cel.cost.prices import NEW_LIST, PER_CHARACTER
from gpusharing.cel.cost.ranges import MOST, ONE, Range, fixed
from gpusharing.cel.declarations.types import DURATION, TIMESTAMP


def _new_list(size: Range, per_item: float = 1.0) -> CallEstimate:
    return CallEstimate(size.scaled(per_item).plus(fixed(1 + NEW_LIST)), size)


def _literal_or(operand: Operand, otherwise: int) -> int:
    literal = operand.literal_integer
    return otherwise if literal is None else max(literal, 0)


def _slice(call: CallForm) -> CallEstimate:
    items, start, end = call.operands
    # A slice that begins behind its end is an error later on, but here a number that wraps around.
    size = (_literal_or(end, items.size.max) - _literal_or(start, 0)) % (MOST + 1)
    return _new_list(fixed(size))


def _range(call: CallForm) -> CallEstimate:
    return _new_list(fixed(_literal_or(call.operands[0], MOST)))


def _reverse(call: CallForm) -> CallEstimate:
    return _new_list(call.first)


def _flatten(call: CallForm) -> CallEstimate:
    depth = _literal_or(call.operands[1], MOST) if len(call.operands) > 1 else 1
    return _new_list(call.first, depth)


def _compare_all(compared: Operand, per_pair: float = 2.0) -> CallEstimate:
    return _new_list(compared.size.times(compared.size), per_pair)


def _distinct(call: CallForm) -> CallEstimate:
    return _compare_all(call.operands[0])


def _sort(call: CallForm) -> CallEstimate:
    return _compare_all(call.operands[-1])  # the keys, if there are any


def _sort_text(call: CallForm) -> CallEstimate:
    return _compare_all(call.operands[-1], 2.0 + PER_CHARACTER)


def _sets(comparisons: int) -> Estimator:
    def estimate(call: CallForm) -> CallEstimate:
        left, right = call.operands
        return CallEstimate(left.size.times(right.size).scaled(comparisons).plus(ONE))

    return estimate


def _sorts(*kinds: str) -> list[str]:
    return [f"list_{kind}_{function}" for kind in kinds for function in ("sort", "sortByAssociatedKeys")]


BY_OVERLOAD: Final[Mapping[str, Estimator]] = MappingProxyType(
    {
        "list_slice": _slice,
        "list_flatten": _flatten,
        "list_flatten_int": _flatten,
        "lists_range": _range,
        "list_reverse": _reverse,
        "list_distinct": _distinct,
        "list_sets_contains_list": _sets(1),
        "list_sets_intersects_list": _sets(1),
        "list_sets_equivalent_list": _sets(2),
        **for_each(_sorts("int", "uint", "double", "bool", DURATION.name, TIMESTAMP.name), _sort),
        **for_each(_sorts("string", "bytes"), _sort_text),
    }
)
