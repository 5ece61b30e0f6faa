"""An expression as a tree, with all macros expanded: the form that is checked, costed and turned into code.

The names of operators and the shape of expanded macros are those of cel-go, because its cost rules speak of them.
Nobody changes a node. They are not frozen because that makes making them three times as slow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from gpusharing.cel.values.numbers import Uint

Constant: TypeAlias = bool | int | Uint | float | str | bytes | None

AND: Final = "_&&_"
OR: Final = "_||_"
NOT: Final = "!_"
NEGATE: Final = "-_"
CONDITIONAL: Final = "_?_:_"
NOT_STRICTLY_FALSE: Final = "@not_strictly_false"
EQUALS: Final = "_==_"
NOT_EQUALS: Final = "_!=_"
LESS: Final = "_<_"
LESS_EQUALS: Final = "_<=_"
GREATER: Final = "_>_"
GREATER_EQUALS: Final = "_>=_"
ADD: Final = "_+_"
SUBTRACT: Final = "_-_"
MULTIPLY: Final = "_*_"
DIVIDE: Final = "_/_"
MODULO: Final = "_%_"
IN: Final = "@in"
INDEX: Final = "_[_]"
OPTIONAL_INDEX: Final = "_[?_]"
OPTIONAL_SELECT: Final = "_?._"

COMPARISONS: Final = (LESS, LESS_EQUALS, GREATER, GREATER_EQUALS, EQUALS, NOT_EQUALS)
CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
"""Functions that Kubernetes applies to constants when it compiles an expression."""

# The accumulator of a macro's loop, and the loop variable that nobody can name.
RESULT: Final = "@result"
UNUSED: Final = "#unused"

MacroName: TypeAlias = Literal[
    "all", "exists", "exists_one", "map", "filter", "bind", "opt_map", "opt_flat_map",
    "transform_list", "transform_map", "transform_map_entry",
]  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Node:
    id: int  # unique in the tree
    at: int  # where it stands in the text, in characters


@dataclass(slots=True, kw_only=True)
class Constantly(Node):
    value: Constant


@dataclass(slots=True, kw_only=True)
class Name(Node):
    name: str  # with a leading dot if the text has one


@dataclass(slots=True, kw_only=True)
class Select(Node):
    operand: Node
    field: str
    test: bool = False  # has(operand.field)


@dataclass(slots=True, kw_only=True)
class Call(Node):
    function: str  # with its namespace, as in optional.of
    target: Node | None = None
    arguments: tuple[Node, ...] = ()


@dataclass(slots=True, kw_only=True)
class MakeList(Node):
    elements: tuple[Node, ...]
    optional: frozenset[int] = frozenset()  # indices of elements written ?element


@dataclass(slots=True, kw_only=True)
class Entry(Node):
    key: Node
    value: Node
    optional: bool = False


@dataclass(slots=True, kw_only=True)
class MakeMap(Node):
    entries: tuple[Entry, ...]


@dataclass(slots=True, kw_only=True)
class MakeMessage(Node):
    """`Type{field: value}`: Kubernetes declares no message type for selectors, except the protobuf well-known ones."""

    type_name: str
    fields: tuple[tuple[str, Node], ...]
    optional: frozenset[int] = frozenset()  # indices of fields written ?field


@dataclass(slots=True, kw_only=True)
class Comprehension(Node):
    """A loop over `range`; `macro` names the macro that it came from, which tells the shape of the other parts."""

    macro: MacroName
    range: Node
    variable: str
    second_variable: str = ""  # of two-variable macros
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node


def parts(node: Node) -> Sequence[Node]:
    """What it is directly made of, in the order of the text."""
    match node:
        case Select(operand=operand):
            return (operand,)
        case Call(target=target, arguments=arguments):
            return arguments if target is None else (target, *arguments)
        case MakeList(elements=elements):
            return elements
        case MakeMap(entries=entries):
            return [part for entry in entries for part in (entry.key, entry.value)]
        case MakeMessage(fields=fields):
            return [value for _, value in fields]
        case Comprehension():
            return (node.range, node.initial, node.condition, node.step, node.result)
    return ()
