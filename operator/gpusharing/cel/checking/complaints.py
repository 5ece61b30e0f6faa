"""What is said about expressions that Kubernetes refuses: what is wrong, and what would be right."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from gpusharing.cel.declarations import Declarations, Function
from gpusharing.cel.declarations.overloads import Overload
from gpusharing.cel.declarations.types import NULLABLE, QUANTITY, SEMVER, STRING, Type
from gpusharing.cel.tree import (
    ADD,
    COMPARISONS,
    SUBTRACT,
    Call,
    Comprehension,
)
from gpusharing.cel.tree.writing import shortened, written

_SHORT: Final = {
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "null_type": "null",
    "kubernetes.Quantity": "quantity",
    "kubernetes.Semver": "semver",
    "kubernetes.URL": "url",
    "kubernetes.DRADevice": "device",
    "net.IP": "ip",
    "net.CIDR": "cidr",
    "optional_type": "optional",
}
_MOST_NAMES: Final = 12
_MACROS: Final = {
    "has": "has(a.b)",
    "all": "list.all(x, condition)",
    "exists": "list.exists(x, condition)",
    "exists_one": "list.exists_one(x, condition)",
    "existsOne": "list.exists_one(x, condition)",
    "map": "list.map(x, value)",
    "filter": "list.filter(x, condition)",
    "bind": "cel.bind(x, value, expression)",
    "optMap": "optional.optMap(x, value)",
    "optFlatMap": "optional.optFlatMap(x, optional)",
    "sortBy": "list.sortBy(x, key)",
    "transformList": "list.transformList(index, x, value)",
    "transformMap": "map.transformMap(key, x, value)",
    "transformMapEntry": "map.transformMapEntry(key, x, {key: value})",
}
OTHER_LIBRARIES: Final = frozenset(
    {"authorizer", "base64", "cel", "json", "jsonpatch", "math", "net", "proto", "regex"}
)
"""Of CEL, and of other uses of it in Kubernetes: selectors do without."""


def shown(type_: Type) -> str:
    if type_.name == NULLABLE:
        return f"{shown(type_.parameters[0])} or null"
    if type_.name.startswith("@"):
        return type_.name[1:]
    name = _SHORT.get(type_.name, type_.name)
    if type_.size > _MOST_NAMES:
        return f"{name}(...)"
    return f"{name}({_listed(type_.parameters)})" if type_.parameters else name


def _listed(types: Iterable[Type]) -> str:
    return ", ".join(map(shown, types))


def _close(name: str, names: Iterable[str]) -> str:
    if shortened(name) != name:
        return ""
    found = get_close_matches(name, [each for each in names if each[:1].isalpha()], n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


# --- Names and fields -------------------------------------------------------------------------------------------------


def unknown_name(name: str, known: Collection[str]) -> str:
    return f"there is no {shortened(name)!r}{_close(name, known)}"


def unknown_field(value: Type, field: str, fields: Mapping[str, Type]) -> str:
    there_are = f"; it has {', '.join(fields)}" if fields else ""
    return f"{shown(value)} has no field {shortened(field)!r}{_close(field, fields) or there_are}"


def no_fields(value: Type, field: str) -> str:
    return f"{shown(value)} has no fields, so no {shortened(field)!r} either"


def wrong_field(field: str, wanted: Type, given: Type) -> str:
    return f"the field {shortened(field)!r} is {shown(wanted)}, not {shown(given)}"


def no_message(name: str) -> str:
    return f"nothing can be made of the type {name!r} with braces"


# --- Calls ------------------------------------------------------------------------------------------------------------


def other_library(call: Call) -> str:
    name = call.function
    if name in _MACROS:
        return f"{name} is used so: {_MACROS[name]}"
    return f"{written(call.target) if call.target else ''}.{shortened(name)} is not available in device selectors"


def unknown_function(call: Call, declared: Declarations) -> str:
    name = call.function
    if name in _MACROS:
        return f"{name} is used so: {_MACROS[name]}"
    return f"there is no function {shortened(name)!r}{_close(name, [*declared.functions, *_MACROS])}"


def no_overload(call: Call, given: Sequence[Type], function: Function) -> str:
    advice = _quantity_advice(call, given)
    if advice:
        return advice
    if call.function == "cel.@mapInsert":
        return f"an entry of a map is expected, as in {{key: value}}, not {shown(given[-1])}"
    if call.function == "@sortByAssociatedKeys":
        return f"sortBy cannot sort by {shown(given[-1].parameters[0])}"
    if call.function[0] in "_-!@":
        return _no_operator(call, given)
    return _no_function(call, given, function)


def _quantity_advice(call: Call, given: Sequence[Type]) -> str:
    """The classical mistake: comparing an amount with its spelling."""
    for kind, make in ((QUANTITY, "quantity"), (SEMVER, "semver")):
        if len(given) != 2 or kind not in given or call.target is not None:
            continue
        left, right = (
            text if type_ == kind else f"{make}({text if type_ == STRING else '...'})"
            for text, type_ in zip((written(argument) for argument in call.arguments), given, strict=True)
        )
        operator = _symbol(call.function)
        if call.function in COMPARISONS:
            return f"{shown(kind)} is compared so: {left}.compareTo({right}) {operator} 0"
        if kind == QUANTITY and call.function in (ADD, SUBTRACT):
            return f"quantity has no {operator!r}; write {left}.{'add' if call.function == ADD else 'sub'}({right})"
    return ""


def _no_operator(call: Call, given: Sequence[Type]) -> str:
    types = [shown(type_) for type_ in given]
    match call.function, types:
        case "_?_:_", ["bool" | "dyn", then, otherwise]:
            return f"'? :' gives {then} or {otherwise}, which must be of one type"
        case "_?_:_", [condition, *_]:
            return f"the condition of '? :' is {condition}, not bool"
        case (("_[_]" | "_[?_]"), [container, index]):
            if given[0].name in ("list", "map"):
                return f"{container} has no index of type {index}"
            return f"{container} has no elements to be taken out by index"
        case "@in", [element, container]:
            if given[1].name in ("list", "map"):
                return f"no {element} is in a {container}"
            return f"'in' takes a list or a map on its right, not {container}"
        case function, [left, right]:
            verb = "compare" if function in COMPARISONS else "take"
            return f"{_symbol(function)!r} cannot {verb} {left} and {right}"
        case function, [operand]:
            return f"{_symbol(function)!r} cannot take {operand}"
    return f"{call.function} cannot take {', '.join(types)}"


def _symbol(function: str) -> str:
    return function.strip("_@")


def _no_function(call: Call, given: Sequence[Type], function: Function) -> str:
    name = call.function
    overloads = (*function.members, *function.globals)
    signatures = ", ".join(_signature(name, overload) for overload in overloads[:4])
    more = ", ..." if len(overloads) > 4 else ""
    if call.target is None:
        return f"{name}({_listed(given)}) is not possible; there is {signatures}{more}"
    return f"{shown(given[0])}.{name}({_listed(given[1:])}) is not possible; there is {signatures}{more}"


def _signature(name: str, overload: Overload) -> str:
    if overload.is_member:
        target, *arguments = overload.parameters
        return f"{shown(target)}.{name}({_listed(arguments)})"
    return f"{name}({_listed(overload.parameters)})"


# --- Types ------------------------------------------------------------------------------------------------------------


def no_condition(call: Call, given: Type) -> str:
    return f"{_symbol(call.function)!r} takes bool on both sides, not {shown(given)}"


def wrong_type(wanted: Type, given: Type) -> str:
    return f"{shown(wanted)} is expected here, not {shown(given)}"


def no_optional(given: Type) -> str:
    return f"what is optional here must be an optional value, not {shown(given)}"


def no_range(loop: Comprehension, given: Type) -> str:
    if given.name == "any":
        return f"{loop.macro} cannot go over an attribute before Kubernetes 1.36, which has no lists"
    return f"{loop.macro} goes over a list or a map, not {shown(given)}"


def no_answer(given: Type) -> str:
    return f"a selector must be true or false, and this is {shown(given)}"


def of_other_type(what: str, first: Type, other: Type) -> str:
    return f"{what} is {shown(other)} after one that is {shown(first)}; all must be of one type"


def not_formatted(clause: str, given: Type) -> str:
    return f"{clause!r} does not format {shown(given)}"


def no_index(given: Type) -> str:
    return f"{shown(given)} cannot be an index or a key"
