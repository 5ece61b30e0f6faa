"""Pieces of generated code, and what is known about them.

A piece's type is what its value is sure to be at run time, unlike the checker's: an `orValue` on something dynamic, for
instance, may give anything at all. What is not sure is DYN.
"""

from typing import Any, Final, NamedTuple

from gpusharing.cel.declarations.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    QUANTITY,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
)
from gpusharing.cel.values.type_values import type_of

# The places in a device. Its maps are not like others, and no attribute is a map, a double or optional.
ATTRIBUTE: Final = Type("attribute")
ATTRIBUTES_OF_DOMAIN: Final = Type("attributes of a domain", (STRING, ATTRIBUTE))
CAPACITIES_OF_DOMAIN: Final = Type("capacities of a domain", (STRING, QUANTITY))
ATTRIBUTES: Final = Type("attributes", (STRING, ATTRIBUTES_OF_DOMAIN))
CAPACITIES: Final = Type("capacities", (STRING, CAPACITIES_OF_DOMAIN))

_SIMPLE: Final = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DURATION, TIMESTAMP)
_SIMPLE_BY_NAME: Final = {kind.name: kind for kind in _SIMPLE}
_MAPS: Final = frozenset(("map", *(kind.name for kind in (ATTRIBUTES, CAPACITIES)))) | {
    ATTRIBUTES_OF_DOMAIN.name,
    CAPACITIES_OF_DOMAIN.name,
}


class NotConstant:
    __slots__ = ()


NOT_CONSTANT: Final = NotConstant()


class Code(NamedTuple):
    """An expression of Python. `fails`: it may raise; `breaks`: what it raises may be a Breakdown."""

    text: str
    type: Type = DYN
    fails: bool = False
    breaks: bool = False
    constant: Any = NOT_CONSTANT

    @property
    def is_constant(self) -> bool:
        return self.constant is not NOT_CONSTANT

    @property
    def is_name(self) -> bool:
        """It can be repeated at no cost."""
        return self.text.isalnum()


def constant_type(value: Any) -> Type:
    """Of containers only that they are some."""
    if isinstance(value, list):
        return list_of(DYN)
    if isinstance(value, dict):
        return map_of(DYN, DYN)
    return _SIMPLE_BY_NAME.get(type_of(value).name, DYN)


def list_type(item: Type) -> Type:
    """Types are compared often, so they must not be deep."""
    return list_of(_shallow(item))


def map_type(key: Type, value: Type) -> Type:
    return map_of(_shallow(key), _shallow(value))


def _shallow(kind: Type) -> Type:
    is_deep = any(part.parameters for parameter in kind.parameters for part in (parameter, *parameter.parameters))
    return DYN if is_deep else kind


def joined(types: list[Type]) -> Type:
    """The type of a value that has one of these."""
    first = types[0] if types else DYN
    return first if all(kind is first or kind == first for kind in types) else DYN


def is_unknown(kind: Type) -> bool:
    return kind.name == "dyn"


def is_list(kind: Type) -> bool:
    return kind.name == "list"


def is_map(kind: Type) -> bool:
    return kind.name in _MAPS


def is_simple(kind: Type) -> bool:
    """Sure to be neither a container nor of one of Kubernetes' own types."""
    return kind.name in _SIMPLE_BY_NAME


def may_be_list(kind: Type) -> bool:
    return kind.name in ("dyn", "attribute", "list")


def items_of(kind: Type) -> Type:
    """What a loop over such a value sees: the items of a list, the keys of a map."""
    if is_list(kind) or is_map(kind):
        return kind.parameters[0]
    return ATTRIBUTE if kind is ATTRIBUTE else DYN


def values_of(kind: Type) -> Type:
    """What a key or an index leads to."""
    return kind.parameters[1] if is_map(kind) else items_of(kind)
