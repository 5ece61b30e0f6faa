"""What a selector can use, by version of Kubernetes: variables, types and functions, each with its overloads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
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
from gpusharing.cel.declarations.tables import merged
from gpusharing.cel.declarations.types import ANY, DEVICE, DYN, Type, type_of

_LIBRARIES: Final = (
    operators, standard, optionals, strings, lists, quantities, network, formats, authorization,
)  # fmt: skip
OLDEST_MINOR: Final = 34
NEWEST_MINOR: Final = 37
"""Minor versions of Kubernetes whose CEL is known here. A newer one is read as the newest."""

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


@lru_cache
def declarations(minor: int) -> Declarations:
    attribute = DYN if minor >= _DYNAMIC_ATTRIBUTES_SINCE else ANY
    types = {name: type_of(type_) for name, type_ in named_types(attribute).items()}
    return Declarations(
        minor=minor,
        functions=functions([library.TABLE for library in _LIBRARIES], minor),
        names=merged({"device": DEVICE}, types, CONSTANTS),
        fields=message_fields(attribute, minor),
        attribute=attribute,
    )


def functions(tables: Iterable[str], minor: int) -> Mapping[str, Function]:
    """By name. Raises ValueError if two tables declare the same function, or two functions the same overload."""
    declared = merged(*(overloads(table, minor) for table in tables))
    merged(*({overload.id: overload for overload in of_function} for of_function in declared.values()))
    return {
        name: Function(
            members=tuple(overload for overload in of_function if overload.is_member),
            globals=tuple(overload for overload in of_function if not overload.is_member),
        )
        for name, of_function in declared.items()
    }
