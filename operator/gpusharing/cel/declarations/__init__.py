"""What a selector can use, by version of Kubernetes: variables, types and functions, each with its overloads."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

from gpusharing.cel.declarations import (
    authorization,
    formats,
    lists,
    network,
    operators,
    optionals,
    quantities,
    standard,
    strings,
)
from gpusharing.cel.declarations.messages import CONSTANTS, message_fields, named_types
from gpusharing.cel.declarations.overloads import Overload, overloads
from gpusharing.cel.types import ANY, DEVICE, DYN, Type, type_of

_LIBRARIES: Final = (
    operators, standard, optionals, strings, lists, quantities, network, formats, authorization,
)  # fmt: skip
_NEWEST: Final = 37
_DYNAMIC_ATTRIBUTES_SINCE: Final = 36


@dataclass(frozen=True, slots=True)
class Function:
    members: tuple[Overload, ...]
    """Called on something."""
    globals: tuple[Overload, ...]


@dataclass(frozen=True, slots=True)
class Declarations:
    minor: int
    functions: Mapping[str, Function]
    """By their names with namespaces, as in optional.of."""
    names: Mapping[str, Type]
    """Variables, types and constants, with dots."""
    fields: Mapping[str, Mapping[str, Type]]
    """By the name of the message type that has them."""
    attribute: Type
    """Of what an attribute of the device is: its type is known on evaluation only."""


def declarations(minor: int) -> Declarations:
    return _declarations(min(minor, _NEWEST))


@lru_cache
def _declarations(minor: int) -> Declarations:
    attribute = DYN if minor >= _DYNAMIC_ATTRIBUTES_SINCE else ANY
    types = {name: type_of(type_) for name, type_ in named_types(attribute).items()}
    return Declarations(
        minor=minor,
        functions=_functions(minor),
        names={"device": DEVICE, **types, **CONSTANTS},
        fields=message_fields(attribute, minor),
        attribute=attribute,
    )


def _functions(minor: int) -> Mapping[str, Function]:
    declared = [each for library in _LIBRARIES for each in overloads(library.TABLE, minor)]
    functions = {}
    for name, group in groupby(declared, key=lambda each: each[0]):
        of_function = [overload for _, overload in group]
        functions[name] = Function(
            members=tuple(overload for overload in of_function if overload.is_member),
            globals=tuple(overload for overload in of_function if not overload.is_member),
        )
    return functions
