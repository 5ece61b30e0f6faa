"""Work that a call is for us, in steps of an interpreter: looking at an item, copying a character.

Kubernetes charges too little for some of it: equality by the outermost items only, sums of lists by nothing.
"""

from collections.abc import Sequence
from typing import Final

from gpusharing.cel.cost.shapes import Shape
from gpusharing.cel.tree import EQUALS, IN, NOT_EQUALS

_PARSERS: Final = frozenset((
    *("quantity", "isQuantity", "semver", "isSemver", "url", "isURL", "ip", "isIP", "ip.isCanonical", "cidr", "isCIDR"),
    *("containsIP", "containsCIDR", "duration", "timestamp", "format", "validate"),
    *("add", "sub", "compareTo", "isGreaterThan", "isLessThan"),
))  # fmt: skip
_PARSING: Final = 100
SEARCHING: Final = frozenset(("matches", "find", "findAll"))
MOST_INSTRUCTIONS: Final = 16_000
"""Of a pattern that is read while the expression is evaluated."""
_OF_ALL_INSIDE: Final = frozenset((
    *(IN, "includes", "indexOf", "lastIndexOf", "isSorted", "max", "min", "sum", "join", "flatten", "format"),
))  # fmt: skip
_OF_PAIRS: Final = frozenset((
    *("sets.contains", "sets.intersects", "sets.equivalent"),
    *("distinct", "sort", "@sortByAssociatedKeys"),
))  # fmt: skip


def work_of(
    function: str, overloads: Sequence[str], arguments: Sequence[Shape], result: Shape, *, has_constant_pattern: bool
) -> int:
    work = 1 + result.length
    if function in (EQUALS, NOT_EQUALS):
        return work + min(argument.volume for argument in arguments)
    if overloads == ("in_map",):
        return work + arguments[0].length
    if function in _OF_ALL_INSIDE:
        return work + sum(argument.volume for argument in arguments)
    if function in _OF_PAIRS:
        return work + 2 * arguments[0].length * arguments[-1].volume
    work += sum(argument.length for argument in arguments)
    if function in _PARSERS:
        return work + _PARSING
    if function in SEARCHING:
        text, pattern = arguments[:2]
        if has_constant_pattern:
            return work + searching(text.length, instructions_expected(pattern.length))
        return work + reading(MOST_INSTRUCTIONS) + searching(text.length, MOST_INSTRUCTIONS)
    return work


def instructions_expected(length: int) -> int:
    """Of a regular expression with a text of so many characters, if it is as people write them."""
    return 4 * (length + 16)


def reading(instructions: int) -> int:
    """A regular expression of that size."""
    return 300 + 16 * instructions


def searching(length: int, instructions: int) -> int:
    """A text of that length, if RE2 learns something new at each character."""
    return (length + 1) * instructions // 5
