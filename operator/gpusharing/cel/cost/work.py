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
_PATTERNS: Final = frozenset(("matches", "find", "findAll"))
_PER_CHARACTER_OF_PATTERN: Final = 100
_OF_ALL_INSIDE: Final = frozenset((
    *(IN, "includes", "indexOf", "lastIndexOf", "isSorted", "max", "min", "sum", "join", "flatten", "format"),
))  # fmt: skip
_OF_PAIRS: Final = frozenset((
    *("sets.contains", "sets.intersects", "sets.equivalent"),
    *("distinct", "sort", "@sortByAssociatedKeys"),
))  # fmt: skip


def work_of(function: str, overloads: Sequence[str], arguments: Sequence[Shape], result: Shape) -> int:
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
    if function in _PATTERNS:
        return work + _PER_CHARACTER_OF_PATTERN * arguments[1].length
    return work
