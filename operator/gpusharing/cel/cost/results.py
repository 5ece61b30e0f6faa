"""How large the results of functions can be, given the shapes of their arguments."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from gpusharing.cel.cost.shapes import ENDLESS, LONGEST_IN_UTF8, SCALAR, Shape, shape, union
from gpusharing.cel.declarations.types import (
    BOOL,
    DOUBLE,
    DURATION,
    INT,
    NAMED_FORMAT,
    QUANTITY,
    SEMVER,
    TIMESTAMP,
    UINT,
    Type,
)
from gpusharing.cel.tree import (
    ADD,
    DIVIDE,
    EQUALS,
    GREATER,
    GREATER_EQUALS,
    IN,
    LESS,
    LESS_EQUALS,
    MODULO,
    MULTIPLY,
    NEGATE,
    NOT,
    NOT_EQUALS,
    SUBTRACT,
)

Result: TypeAlias = Callable[[Sequence[Shape]], Shape]

_LONGEST_NUMERAL: Final = 400
"""Characters of a number, a time or an address: a double can have 309 digits before the point."""
_LONGEST_WRITTEN: Final = 500
_WRITTEN_PER_STEP: Final = 400
"""Characters: an item of a list may be a double again."""
_LONGEST_REASON: Final = 1024
_ADDRESS: Final = Shape(16)
_SMALL: Final = frozenset(
    kind.name for kind in (BOOL, INT, UINT, DOUBLE, DURATION, TIMESTAMP, QUANTITY, SEMVER, NAMED_FORMAT)
)


def formatted(text: str, arguments: Shape) -> Shape:
    """A number in the text may ask for any number of digits."""
    if any(character.isdigit() for character in text):
        return ENDLESS
    return shape(len(text) + arguments.length * (_LONGEST_WRITTEN + _WRITTEN_PER_STEP * arguments.content.volume))


def result_of(function: str, arguments: Sequence[Shape], kind: Type) -> Shape:
    if (result := _RESULTS.get(function)) is not None:
        return result(arguments)
    return SCALAR if kind.name in _SMALL or function in _SCALARS else ENDLESS


def _same(arguments: Sequence[Shape]) -> Shape:
    return arguments[0]


def _sum(arguments: Sequence[Shape]) -> Shape:
    left, right = arguments
    both = left.union(right)
    return shape(left.length + right.length, both.items, both.keys)


def _item(arguments: Sequence[Shape]) -> Shape:
    return arguments[0].content


def _text_of(arguments: Sequence[Shape]) -> Shape:
    return shape(max(arguments[0].length, _LONGEST_NUMERAL))


def _bytes_of(arguments: Sequence[Shape]) -> Shape:
    return shape(LONGEST_IN_UTF8 * arguments[0].length)


def _quoted(arguments: Sequence[Shape]) -> Shape:
    return shape(2 * arguments[0].length + 2)


def _replaced(arguments: Sequence[Shape]) -> Shape:
    text, _, new = arguments[:3]
    return shape(text.length + (text.length + 1) * new.length)


def _pieces(arguments: Sequence[Shape]) -> Shape:
    text = arguments[0].length
    return shape(text + 1, shape(text))


def _joined(arguments: Sequence[Shape]) -> Shape:
    items, *separator = arguments
    return shape(items.length * (items.content.length + sum(each.length for each in separator)))


def _escaped(arguments: Sequence[Shape]) -> Shape:
    return shape(3 * LONGEST_IN_UTF8 * arguments[0].length)


def _query(arguments: Sequence[Shape]) -> Shape:
    text = arguments[0].length
    return shape(text + 1, shape(text + 1, shape(text)), keys=text)


def _flattened(arguments: Sequence[Shape]) -> Shape:
    """Items of all levels together: how deep it goes may be known only later."""
    length, level = arguments[0].length, arguments[0].items
    items = level
    while items is not None and level is not None:
        length *= max(level.length, 1)
        items = items.union(level)
        level = level.items
    return shape(length, items)


def _reasons(arguments: Sequence[Shape]) -> Shape:
    return shape(_LONGEST_REASON, shape(_LONGEST_REASON + LONGEST_IN_UTF8 * arguments[1].length))


def _with_entry(arguments: Sequence[Shape]) -> Shape:
    entries, *added = arguments
    if len(added) == 1:
        return _sum((entries, added[0]))
    key, value = added
    return entries.union(shape(entries.length + 1, value, keys=key.length))


def _address(_arguments: Sequence[Shape]) -> Shape:
    return _ADDRESS


_SCALARS: Final = frozenset((
    *(NOT, EQUALS, NOT_EQUALS, LESS, LESS_EQUALS, GREATER, GREATER_EQUALS, IN),
    *(NEGATE, SUBTRACT, MULTIPLY, DIVIDE, MODULO, "sum"),
    *("type", "optional.none", "format.named"),
))  # fmt: skip

_RESULTS: Final[Mapping[str, Result]] = MappingProxyType(
    {
        ADD: _sum,
        "string": _text_of,
        "bytes": _bytes_of,
        **dict.fromkeys(
            ("dyn", "optional.of", "optional.ofNonZeroValue", "value", "optional.unwrap", "unwrapOpt"), _same
        ),
        **dict.fromkeys(("or", "orValue"), union),
        **dict.fromkeys(("lowerAscii", "upperAscii", "trim", "substring", "charAt", "find"), _same),
        **dict.fromkeys(("split", "findAll"), _pieces),
        "replace": _replaced,
        "join": _joined,
        "strings.quote": _quoted,
        **dict.fromkeys(("reverse", "slice", "sort", "@sortByAssociatedKeys", "distinct"), _same),
        "flatten": _flattened,
        "lists.range": lambda _: ENDLESS,
        **dict.fromkeys(("max", "min", "first", "last"), _item),
        "cel.@mapInsert": _with_entry,
        "url": _same,
        **dict.fromkeys(("getScheme", "getHostname", "getHost", "getPort", "getEscapedPath"), _escaped),
        "getQuery": _query,
        **dict.fromkeys(("ip", "cidr", "masked"), _address),
        "validate": _reasons,
    }
)
