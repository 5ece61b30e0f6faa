"""What an evaluation is charged: cel-go's interpreter/runtimecost.go and Kubernetes' library/cost.go.

    a literal, a type, a constant list or map                     0
    && || ?: and loops, for themselves                            0
    a variable, or any other value that fields are taken of       1; 0 in has(), as a branch of ?:, within [...]
    a field, an index                                             1; if optional, only if there is something
    [a, b]                                                       10
    {a: b}                                                       30
    Message{a: b}                                                40
    optional.or, optional.orValue, x in [constants]               0
    a call                                                        `price_of`

What fails is charged like what does not, if all that it needs was evaluated.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from gpusharing.cel.cost.charging import (
    OfAllInside,
    OfComparingItems,
    OfEquality,
    OfFlattening,
    OfResult,
    OfSizes,
    OfValidating,
    Price,
)
from gpusharing.cel.cost.prices import NEW_LIST, NEW_MESSAGE, PER_CHARACTER, of_pattern, per_character
from gpusharing.cel.cost.values import size_of, size_of_content
from gpusharing.cel.declarations.types import DURATION, TIMESTAMP
from gpusharing.cel.tree import EQUALS, NOT_EQUALS

_CEL_GO_0_29: Final = 37
"""The minor version of Kubernetes that came with it, and with changes of prices."""
_EQUALITY: Final = {EQUALS: "equals", NOT_EQUALS: "not_equals"}
"""Operators whose overload is never in doubt."""


def price_of(function: str, overloads: Sequence[str], minor: int) -> int | Price:
    """Of a call for which these overloads are left, the same for all or depending on values. cel-go's functions have a
    price only where one overload is left, Kubernetes' are known by name."""
    overload = _EQUALITY.get(function) or (overloads[0] if len(overloads) == 1 else "")
    if minor < _CEL_GO_0_29 and overload in _BEFORE_0_29:
        return _BEFORE_0_29[overload]
    return _BY_OVERLOAD.get(overload, _BY_FUNCTION.get(function, 1))


def stops_at_error(function: str, overloads: Sequence[str], arguments: int, *, has_constant_pattern: bool) -> bool:
    """Whether arguments after one that failed are not evaluated, and the call is not charged unless that was the last.
    Other calls evaluate and charge all there is. The target counts as an argument."""
    if arguments != 2 or function == "format":
        return True
    if function in ("matches", "find", "findAll"):
        return has_constant_pattern
    looks_at_values_itself = function.startswith(("_", "@"))
    return len(overloads) > 1 and not looks_at_values_itself


def _new_list(items: int) -> int:
    return items + 1 + NEW_LIST


def _read(text: int, *_: int) -> int:
    return per_character(text)


def _read_twice(text: int, *_: int) -> int:
    return per_character(text, 2 * PER_CHARACTER)


def _read_second(_: int, text: int) -> int:
    return per_character(text)


def _requirements(_: int, text: int) -> int:
    return NEW_LIST + per_character(text) + per_character(text, 0.5) * (NEW_LIST + NEW_MESSAGE)


def _contains_ip(network: int, _: int) -> int:
    return per_character(2 * network)


def _contains_ip_text(network: int, text: int) -> int:
    return _contains_ip(network, text) + per_character(text)


def _contains_cidr(network: int, other: int) -> int:
    return _contains_ip(network, other) + per_character(network) + 1


def _contains_cidr_text(network: int, text: int) -> int:
    return _contains_cidr(network, text) + per_character(text)


def _contains(text: int, part: int) -> int:
    return per_character(text) * per_character(part)


def _concatenate(left: int, right: int) -> int:
    return per_character(left + right)


def _compare(left: int, right: int) -> int:
    return per_character(min(left, right))


def _second(_: int, items: int) -> int:
    return items


def _compare_sets(left: int, right: int) -> int:
    return left * right + 1


def _compare_sets_both_ways(left: int, right: int) -> int:
    return 2 * left * right + 1


_SORTABLE: Final = ("int", "uint", "double", "bool", "string", "bytes", DURATION.name, TIMESTAMP.name)
_ORDERS: Final = ("less", "less_equals", "greater", "greater_equals")
_COMPARE: Final = OfSizes(_compare, size_of_content)

_BY_OVERLOAD: Final[Mapping[str, int | Price]] = MappingProxyType(
    {
        # cel-go's extensions
        **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), OfResult(_new_list)),
        **dict.fromkeys(("list_flatten", "list_flatten_int"), OfFlattening(may_be_negative=False)),
        **dict.fromkeys(("list_distinct", *(f"list_{kind}_sort" for kind in _SORTABLE)), OfComparingItems(0)),
        **dict.fromkeys((f"list_{kind}_sortByAssociatedKeys" for kind in _SORTABLE), OfComparingItems(1)),
        **dict.fromkeys(("list_sets_contains_list", "list_sets_intersects_list"), OfSizes(_compare_sets, size_of)),
        "list_sets_equivalent_list": OfSizes(_compare_sets_both_ways, size_of),
        # Kubernetes
        "cidr_ip": 1,
        "cidr_contains_ip_string": OfSizes(_contains_ip_text, size_of),
        "cidr_contains_cidr_string": OfSizes(_contains_cidr_text, size_of),
        # cel-go's standard functions
        **dict.fromkeys(("starts_with_string", "ends_with_string"), OfSizes(_read_second, size_of_content)),
        **dict.fromkeys(
            ("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"), OfSizes(_read, size_of_content)
        ),
        "in_list": OfSizes(_second, size_of_content),
        **dict.fromkeys((f"{order}_{kind}" for order in _ORDERS for kind in ("string", "bytes")), _COMPARE),
        "equals": OfEquality(),
        "not_equals": _COMPARE,
        **dict.fromkeys(("add_string", "add_bytes"), OfSizes(_concatenate, size_of_content)),
        **dict.fromkeys(("matches", "matches_string"), OfSizes(of_pattern, size_of_content)),
        "contains_string": OfSizes(_contains, size_of_content),
        # To the checker these are calls, to the planner they are not.
        **dict.fromkeys(("optional_or_optional", "optional_orValue_value"), 0),
    }
)

_BY_FUNCTION: Final[Mapping[str, int | Price]] = MappingProxyType(
    {
        **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), OfAllInside()),
        **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), OfSizes(_read, size_of)),
        **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), OfSizes(_read, size_of)),
        **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), OfSizes(_read, size_of)),
        **dict.fromkeys(("replace", "split", "ip.isCanonical"), OfSizes(_read_twice, size_of)),
        **dict.fromkeys(("find", "findAll"), OfSizes(lambda text, pattern, *_: of_pattern(text, pattern), size_of)),
        "join": OfResult(_read_twice),
        "containsIP": OfSizes(_contains_ip, size_of),
        "containsCIDR": OfSizes(_contains_cidr, size_of),
        "validate": OfValidating(),
        "check": 350_000,
        **dict.fromkeys(("fieldSelector", "labelSelector"), OfSizes(_requirements, size_of)),
    }
)

_BEFORE_0_29: Final[Mapping[str, int | Price]] = MappingProxyType(
    {
        **dict.fromkeys(("list_flatten", "list_flatten_int"), OfFlattening(may_be_negative=True)),
        "dra_includes_dyn_dyn": 1,
        "matches": 1,
        **dict.fromkeys(("starts_with_string", "ends_with_string"), OfSizes(_read, size_of_content)),
    }
)
