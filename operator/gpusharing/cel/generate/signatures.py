"""The types of overloads."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from gpusharing.cel.declarations import declarations
from gpusharing.cel.declarations.overloads import Overload


@cache
def signatures_of(function: str, minor: int) -> Mapping[str, Overload]:
    """By id, in the order in which they are tried."""
    declared = declarations(minor).functions[function]
    return MappingProxyType({overload.id: overload for overload in (*declared.members, *declared.globals)})
