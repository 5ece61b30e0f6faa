"""What Kubernetes refuses although the types fit."""

import re
from collections.abc import Container, Iterator, Sequence
from typing import Final, NamedTuple

from gpusharing.cel.checking import complaints
from gpusharing.cel.checking.assignment import equivalent, without_null
from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.declarations import declarations
from gpusharing.cel.declarations.messages import USABLE_AS_VALUES
from gpusharing.cel.declarations.types import BOOL, BYTES, DYN, Type
from gpusharing.cel.errors import CompileError
from gpusharing.cel.tree import INDEX, OPTIONAL_INDEX, Call, Constantly, MakeList, MakeMap, Name, Node, Select, parts
from gpusharing.cel.tree.writing import shortened

_NULLABLE_RESULT_SINCE: Final = 37


class Problem(NamedTuple):
    node: Node
    message: str


def validate(checked: Checked, suspects: Sequence[Node], formatted: Container[int]) -> None:
    """Raises CompileError. The suspects are those nodes that may be refused; lists and maps that are to be formatted,
    given by their ids, may be of several types.
    """
    literals = [node for node in suspects if node.id not in formatted]
    for problems in (_of_literals(checked, literals), _of_result(checked), _of_plan(checked, suspects)):
        first = min(problems, key=lambda problem: problem.node.at, default=None)
        if first is not None:
            raise CompileError(first.message, checked.expression, first.node.at)


# --- Lists and maps of several types ----------------------------------------------------------------------------------


def _of_literals(checked: Checked, suspects: Sequence[Node]) -> Iterator[Problem]:
    for node in suspects:
        match node:
            case MakeList():
                yield from _differing(checked, node.elements, node.optional, "an element of a list")
            case MakeMap():
                optional = {position for position, entry in enumerate(node.entries) if entry.optional}
                yield from _differing(checked, [entry.key for entry in node.entries], (), "a key of a map")
                yield from _differing(checked, [entry.value for entry in node.entries], optional, "a value of a map")
            case Call(function="format", target=Constantly(value=str() as text), arguments=(MakeList() as given,)):
                yield from _misformatted(checked, node, text, given.elements)


def _differing(checked: Checked, nodes: Sequence[Node], optional: Container[int], what: str) -> Iterator[Problem]:
    first: Type | None = None
    for position, node in enumerate(nodes):
        type_ = checked.types[node.id]
        if position in optional:
            if type_.name != "optional_type":
                # The API server crashes on it.
                yield Problem(node, "what is optional here must be known to be an optional value")
                return
            type_ = type_.parameters[0]
        if first is None:
            first = type_
        elif not equivalent(first, type_):
            yield Problem(node, complaints.of_other_type(what, first, type_))
            return


# --- Formats ----------------------------------------------------------------------------------------------------------

_CLAUSE: Final = re.compile(r"%(?:%|(?:\.(?P<precision>[0-9]*))?(?P<letter>.?))", re.DOTALL)
_LARGEST_PRECISION: Final = 2**63 - 1
_WHOLE: Final = frozenset({"int", "uint"})
_FORMATTED: Final = {
    "d": _WHOLE,
    "o": _WHOLE,
    "b": _WHOLE | {"bool"},
    "x": _WHOLE | {"string", "bytes"},
    "X": _WHOLE | {"string", "bytes"},
    # Strings because of "NaN", "Infinity" and "-Infinity".
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "s": _WHOLE
    | {"bool", "double", "string", "bytes", "list", "map", "type", "null_type"}
    | {"google.protobuf.Duration", "google.protobuf.Timestamp"},
}


def _misformatted(checked: Checked, call: Call, text: str, given: Sequence[Node]) -> Iterator[Problem]:
    used = 0
    for clause in _CLAUSE.finditer(text):
        if clause[0] == "%%":
            continue
        if not clause["letter"]:
            yield Problem(call, f"{shortened(clause[0])!r} at the end is no format")
            return
        if used == len(given):
            yield Problem(call, f"the format takes more values than the {used} that are given")
            return
        precision = clause["precision"]
        if precision is not None and (not precision or int(precision.lstrip("0")[:20] or "0") > _LARGEST_PRECISION):
            yield Problem(call, f"{shortened(clause[0])!r} has no precision that is a number")
            return
        if clause["letter"] not in _FORMATTED:
            yield Problem(call, f"{shortened(clause[0])!r} is no format; there are %s, %d, %f, %e, %b, %o, %x and %X")
            return
        wrong = _not_formatted_by(checked, clause["letter"], given[used])
        if wrong is not None:
            yield Problem(wrong, complaints.not_formatted(shortened(clause[0]), checked.types[wrong.id]))
            return
        used += 1
    if used < len(given):
        yield Problem(call, f"the format takes {used} values, and {len(given)} are given")


def _not_formatted_by(checked: Checked, letter: str, given: Node) -> Node | None:
    """The value, or a part of it, whose type is not known to be right."""
    waiting = [given]
    while waiting:
        node = waiting.pop()
        type_ = checked.types[node.id]
        if type_ != DYN and without_null(type_).name not in _FORMATTED[letter]:
            return node
        if letter == "s" and isinstance(node, MakeList | MakeMap):
            waiting += reversed(parts(node))
    return None


# --- The result -------------------------------------------------------------------------------------------------------


def _of_result(checked: Checked) -> Iterator[Problem]:
    type_ = checked.types[checked.root.id]
    attribute = declarations(checked.minor).attribute
    may_be_null = checked.minor >= _NULLABLE_RESULT_SINCE
    if type_ != attribute and (without_null(type_) if may_be_null else type_) != BOOL:
        yield Problem(checked.root, complaints.no_answer(type_))


# --- What Kubernetes notices when it prepares the evaluation ----------------------------------------------------------


def _of_plan(checked: Checked, suspects: Sequence[Node]) -> Iterator[Problem]:
    for node in suspects:
        match node:
            case Name() | Select() if checked.types[node.id].name == "type":
                # Also a variable that holds a type is looked up among the types, by its own name.
                name = checked.names[node.id].removeprefix(".")
                if name not in USABLE_AS_VALUES:
                    yield Problem(node, f"Kubernetes knows no type {shortened(name)!r} when it evaluates")
            case Call(function=function, arguments=(_, index)) if function in (INDEX, OPTIONAL_INDEX):
                type_ = _constant_type(checked, index)
                if type_ is not None and without_null(type_).name not in _INDICES:
                    yield Problem(node, complaints.no_index(type_))
            case MakeMap(entries=entries) if checked.is_constant(node):
                for entry in entries:
                    # Kubernetes crashes on it.
                    if _constant_type(checked, entry.key) == BYTES:
                        yield Problem(entry.key, complaints.no_index(BYTES))


_INDICES: Final = frozenset({"bool", "int", "uint", "double", "string"})


def _constant_type(checked: Checked, node: Node) -> Type | None:
    """Of a value that is known before the evaluation."""
    if not checked.is_constant(node):
        return None
    while isinstance(node, Call) and node.function == "dyn":
        (node,) = node.arguments
    return checked.types[node.id]
