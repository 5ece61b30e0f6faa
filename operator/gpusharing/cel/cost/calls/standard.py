"""What cel-go expects its standard functions to cost, by overload. Those that are not here cost one unit."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gpusharing.cel.cost.calls.form import CallEstimate, CallForm, Estimator, for_each, of_pattern
from gpusharing.cel.cost.prices import PER_CHARACTER
from gpusharing.cel.cost.ranges import MOST, ONE, Range


def _read(call: CallForm) -> CallEstimate:
    return CallEstimate(call.first.scaled(PER_CHARACTER))


def _string_to_bytes(call: CallForm) -> CallEstimate:
    size = Range(call.first.min, call.first.max * 4 % (MOST + 1))
    return CallEstimate(call.first.scaled(PER_CHARACTER), size)


def _bytes_to_string(call: CallForm) -> CallEstimate:
    size = Range(call.first.min // 4, call.first.max)
    return CallEstimate(call.first.scaled(PER_CHARACTER), size)


def _quote(call: CallForm) -> CallEstimate:
    size = Range((call.first.min + 2) % (MOST + 1), (call.first.max * 2 + 2) % (MOST + 1))
    return CallEstimate(call.first.scaled(PER_CHARACTER), size)


def _affix(call: CallForm) -> CallEstimate:
    return CallEstimate(call.operands[1].size.scaled(PER_CHARACTER))


def _in_list(call: CallForm) -> CallEstimate:
    # By way of a double, which matters to sizes beyond 2 ** 53.
    return CallEstimate(call.operands[1].size.scaled(1))


def _matches(call: CallForm) -> CallEstimate | None:
    if call.overload == "matches" and call.minor < 37:
        return None
    text, pattern = call.operands
    return CallEstimate(of_pattern(text.size, pattern.size))


def _contains(call: CallForm) -> CallEstimate:
    text, part = call.operands
    return CallEstimate(text.size.scaled(PER_CHARACTER).times(part.size.scaled(PER_CHARACTER)))


def _add_text(call: CallForm) -> CallEstimate:
    left, right = call.operands
    size = left.size.plus(right.size)
    return CallEstimate(size.scaled(PER_CHARACTER), size)


def _add_lists(call: CallForm) -> CallEstimate:
    left, right = call.operands
    return CallEstimate(ONE, left.size.plus(right.size))


def _compare(call: CallForm) -> CallEstimate:
    left, right = call.operands
    compared = min(left.size.max, right.size.max)
    return CallEstimate(Range(min(compared, 1), compared).scaled(PER_CHARACTER))


def _orders(*kinds: str) -> list[str]:
    return [f"{order}_{kind}" for order in ("less", "less_equals", "greater", "greater_equals") for kind in kinds]


BY_OVERLOAD: Final[Mapping[str, Estimator]] = MappingProxyType(
    {
        "string_format": _read,
        "string_to_bytes": _string_to_bytes,
        "bytes_to_string": _bytes_to_string,
        "strings_quote": _quote,
        **for_each(("starts_with_string", "ends_with_string"), _affix),
        "in_list": _in_list,
        **for_each(("matches_string", "matches"), _matches),
        "contains_string": _contains,
        **for_each(("add_string", "add_bytes"), _add_text),
        "add_list": _add_lists,
        **for_each(("equals", "not_equals", *_orders("string", "bytes")), _compare),
    }
)
