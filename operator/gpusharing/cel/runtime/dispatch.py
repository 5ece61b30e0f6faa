"""Which of a function's overloads fits the arguments, where only their values tell."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpusharing.cel.declarations.types import Type
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import maps
from gpusharing.cel.values.type_values import type_of


class Candidate(NamedTuple):
    parameters: tuple[Type, ...]
    implementation: Callable[..., Any]


def dispatcher(function: str, candidates: Sequence[Candidate]) -> Callable[..., Any]:
    """A function that calls the first candidate whose parameters accept the arguments."""

    def dispatch(*arguments: Any) -> Any:
        for parameters, implementation in candidates:
            if len(parameters) == len(arguments) and all(map(accepts, parameters, arguments)):
                return implementation(*arguments)
        kinds = ", ".join(type_of(argument).name for argument in arguments)
        raise EvaluationError(f"no such overload: {function}({kinds})")

    return dispatch


def accepts(parameter: Type, value: Any) -> bool:
    """Of a list only the first item is looked at, of a map one entry."""
    if parameter.name in ("dyn", "any") or parameter.name.startswith("@"):
        return True
    if type_of(value).name != parameter.name:
        return False
    if parameter.name == "list":
        return not value or accepts(parameter.parameters[0], value[0])
    if parameter.name == "map" and value:
        key, entry = next(iter(maps.items(value)))
        return accepts(parameter.parameters[0], key) and accepts(parameter.parameters[1], entry)
    return True
