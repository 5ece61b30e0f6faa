"""Calls that the parser replaces by what they stand for: nodes of the same shape as cel-go makes them.

A macro is found by its name and the number of its arguments; other calls of the same name are ordinary calls.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from gpusharing.cel.syntax.nodes import Maker
from gpusharing.cel.tree import (
    ADD,
    AND,
    CONDITIONAL,
    EQUALS,
    NOT,
    NOT_STRICTLY_FALSE,
    OR,
    Call,
    Comprehension,
    MacroName,
    MakeList,
    Name,
    Node,
    Select,
)
from gpusharing.cel.tree.writing import shortened


class BadUse(ValueError):  # noqa: N818 (it is no error in the program)
    """The message is for people."""

    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.at = node.at


@dataclass(frozen=True, slots=True)
class Use:
    """Of a macro: `target.name(arguments)`."""

    name: str
    make: Maker
    target: Node
    same_target: Node
    """The target read once more, for a macro that says it twice; otherwise the target itself."""
    arguments: Sequence[Node]


Macro: TypeAlias = Callable[[Use], Node | None]
"""None: the name means something else here, and the call is an ordinary one."""

READING_THE_TARGET_TWICE: Final = frozenset({"optMap", "optFlatMap"})


def member_macro(name: str, argument_count: int) -> Macro | None:
    return _MEMBERS.get((name, argument_count))


def has(make: Maker, argument: Node) -> Node:
    """The only macro that is not called on anything."""
    if not isinstance(argument, Select):
        raise BadUse(argument, "has() takes the selection of a field, as in has(a.b)")
    return make.presence_test(argument.operand, argument.field)


# --- Variables --------------------------------------------------------------------------------------------------------


def _name(use: Use, position: int) -> str:
    argument = use.arguments[position]
    if not isinstance(argument, Name):
        ordinal = ("first", "second")[position]
        raise BadUse(argument, f"the {ordinal} argument of {use.name}() must be a plain name, of the variable")
    return argument.name


def _variable(use: Use, position: int) -> str:
    name = _name(use, position)
    if name == "__result__":
        raise BadUse(use.arguments[position], "__result__ cannot be the name of a variable")
    return name


def _one(use: Use) -> tuple[str, str]:
    return _variable(use, 0), ""


def _two(use: Use) -> tuple[str, str]:
    names = _name(use, 0), _name(use, 1)
    if names[0] == names[1]:
        raise BadUse(use.arguments[1], f"both variables of {use.name}() have the name {shortened(names[0])}")
    return _variable(use, 0), _variable(use, 1)


Variables: TypeAlias = Callable[[Use], tuple[str, str]]


# --- Quantifiers ------------------------------------------------------------------------------------------------------


def _all(variables: Variables) -> Macro:
    def expand(use: Use) -> Node:
        make = use.make
        return make.loop(
            "all",
            use.target,
            variables(use),
            initial=make.constant(value=True),
            condition=make.call(NOT_STRICTLY_FALSE, make.result()),
            step=make.call(AND, make.result(), use.arguments[-1]),
        )

    return expand


def _exists(variables: Variables) -> Macro:
    def expand(use: Use) -> Node:
        make = use.make
        return make.loop(
            "exists",
            use.target,
            variables(use),
            initial=make.constant(value=False),
            condition=make.call(NOT_STRICTLY_FALSE, make.call(NOT, make.result())),
            step=make.call(OR, make.result(), use.arguments[-1]),
        )

    return expand


def _exists_one(variables: Variables) -> Macro:
    def expand(use: Use) -> Node:
        make = use.make
        one_more = make.call(ADD, make.result(), make.constant(value=1))
        return make.loop(
            "exists_one",
            use.target,
            variables(use),
            initial=make.constant(value=0),
            condition=make.constant(value=True),
            step=make.call(CONDITIONAL, use.arguments[-1], one_more, make.result()),
            result=make.call(EQUALS, make.result(), make.constant(value=1)),
        )

    return expand


# --- Lists and maps from lists and maps -------------------------------------------------------------------------------


def _collect(
    use: Use, macro: MacroName, variables: tuple[str, str], *, only_if: Sequence[Node], empty: Node, longer: Node
) -> Node:
    """What has been collected so far becomes `longer` with each turn, or only if a condition holds."""
    make = use.make
    return make.loop(
        macro,
        use.target,
        variables,
        initial=empty,
        condition=make.constant(value=True),
        step=make.call(CONDITIONAL, only_if[0], longer, make.result()) if only_if else longer,
    )


def _map(use: Use) -> Node:
    _, *only_if, transformed = use.arguments
    return _collect_list(use, "map", _one(use), only_if, transformed)


def _filter(use: Use) -> Node:
    variable, only_if = use.arguments
    return _collect_list(use, "filter", _one(use), [only_if], variable)


def _transform_list(use: Use) -> Node:
    _, _, *only_if, transformed = use.arguments
    return _collect_list(use, "transform_list", _two(use), only_if, transformed)


def _collect_list(
    use: Use, macro: MacroName, variables: tuple[str, str], only_if: Sequence[Node], element: Node
) -> Node:
    make = use.make
    longer = make.call(ADD, make.result(), make.list(element))
    return _collect(use, macro, variables, only_if=only_if, empty=make.list(), longer=longer)


def _transform_map(use: Use) -> Node:
    make = use.make
    _, _, *only_if, transformed = use.arguments
    variables = _two(use)
    larger = make.call(_INSERT, make.result(), make.name(variables[0]), transformed)
    return _collect(use, "transform_map", variables, only_if=only_if, empty=make.empty_map(), longer=larger)


def _transform_map_entry(use: Use) -> Node:
    make = use.make
    _, _, *only_if, entry = use.arguments
    variables = _two(use)
    larger = make.call(_INSERT, make.result(), entry)
    return _collect(use, "transform_map_entry", variables, only_if=only_if, empty=make.empty_map(), longer=larger)


_INSERT: Final = "cel.@mapInsert"


def _sort_by(use: Use) -> Node:
    if not isinstance(use.target, MakeList | Select | Name | Comprehension | Call):
        raise BadUse(use.target, "sortBy() is for lists")
    make = use.make
    keys = _map(replace(use, target=make.name(_TO_BE_SORTED)))
    sorted_by_keys = make.member_call(make.name(_TO_BE_SORTED), "@sortByAssociatedKeys", keys)
    return make.binding("bind", _TO_BE_SORTED, use.target, sorted_by_keys)


_TO_BE_SORTED: Final = "@__sortBy_input__"


# --- Variables with a value -------------------------------------------------------------------------------------------


def _bind(use: Use) -> Node | None:
    if not isinstance(use.target, Name) or use.target.name != "cel":
        return None
    _, value, body = use.arguments
    return use.make.binding("bind", _name(use, 0), value, body)


def _opt_map(use: Use) -> Node:
    return _if_present(use, use.make.call("optional.of", _with_value(use, "opt_map")))


def _opt_flat_map(use: Use) -> Node:
    return _if_present(use, _with_value(use, "opt_flat_map"))


def _with_value(use: Use, macro: MacroName) -> Node:
    value = use.make.member_call(use.same_target, "value")
    return use.make.binding(macro, _name(use, 0), value, use.arguments[1])


def _if_present(use: Use, body: Node) -> Node:
    make = use.make
    return make.call(CONDITIONAL, make.member_call(use.target, "hasValue"), body, make.call("optional.none"))


# Kubernetes has no existsOne of two arguments, although cel-go has.
_MEMBERS: Final[Mapping[tuple[str, int], Macro]] = {
    ("all", 2): _all(_one),
    ("all", 3): _all(_two),
    ("exists", 2): _exists(_one),
    ("exists", 3): _exists(_two),
    ("exists_one", 2): _exists_one(_one),
    ("exists_one", 3): _exists_one(_two),
    ("existsOne", 3): _exists_one(_two),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("sortBy", 2): _sort_by,
    ("bind", 3): _bind,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
}
