"""Constants that lie too deep for the walk over the tree to see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpusharing.cel.generate import calls, containers
from gpusharing.cel.generate.code import NOT_CONSTANT
from gpusharing.cel.tree import CONVERSIONS, IN, Call, Constantly, MakeList, MakeMap, Node
from gpusharing.cel.tree.walking import Steps, walk

if TYPE_CHECKING:
    from gpusharing.cel.generate.generator import Generator


def fold(g: Generator, root: Node) -> Any:
    """What Kubernetes makes of it when it compiles, or NOT_CONSTANT."""
    return walk(_Folding(g).visit, root)


class _Folding:
    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def visit(self, node: Node) -> Steps[Node, Any] | Any:
        match node:
            case Constantly():
                return node.value
            case MakeList():
                return self._container(node, node.elements)
            case MakeMap():
                return self._container(node, containers.parts_of(node))
            case Call(target=None, arguments=(argument,)) if node.function in CONVERSIONS:
                return self._conversion(node, argument)
            case Call() if node.function == IN and self._generator.overloads[node.id] == ("in_list",):
                return self._membership(node)
        return NOT_CONSTANT

    def _container(self, node: MakeList | MakeMap, parts: Sequence[Node]) -> Steps[Node, Any]:
        values = []
        for part in parts:
            value = yield part
            if value is NOT_CONSTANT:
                return NOT_CONSTANT
            values.append(value)
        return containers.constant(self._generator, node, values)

    def _conversion(self, node: Call, argument: Node) -> Steps[Node, Any]:
        value = yield argument
        return value if value is NOT_CONSTANT else calls.converted(self._generator, node, value)

    def _membership(self, node: Call) -> Steps[Node, Any]:
        items = yield node.arguments[1]
        return False if isinstance(items, list) and not items else NOT_CONSTANT
