"""An expression whose types are known."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpusharing.cel.tree import Node
from gpusharing.cel.types import Type


@dataclass(frozen=True, slots=True)
class Checked:
    expression: str
    minor: int
    root: Node
    types: Mapping[int, Type]
    """By the id of each node."""
    overloads: Mapping[int, tuple[str, ...]]
    """By the id of each call: the overloads that fit, by cel-go's ids. More than one if types are known only later."""
    names: Mapping[int, str]
    """By the id of each name, or of a select that turned out to be one: the variable or type that it stands for."""
