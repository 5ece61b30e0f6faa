"""An expression whose types are known."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpusharing.cel.declarations.messages import CONSTANTS
from gpusharing.cel.declarations.types import Type
from gpusharing.cel.tree import CONVERSIONS, IN, Call, Constantly, MakeList, MakeMap, Name, Node, Select


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

    def is_constant(self, root: Node) -> bool:
        """Whether Kubernetes knows the value when it compiles the expression. It then applies neither operators nor
        functions, except conversions.
        """
        waiting = [root]
        while waiting:
            node = waiting.pop()
            match node:
                case Constantly():
                    pass
                case Name() | Select() if node.id in self.names and self._names_a_constant(node):
                    pass
                case MakeList(elements=elements):
                    waiting += elements
                case MakeMap(entries=entries):
                    waiting += [part for entry in entries for part in (entry.key, entry.value)]
                case Call(function=function, target=None, arguments=(argument,)) if function in CONVERSIONS:
                    waiting.append(argument)
                case Call(function=function, arguments=(_, MakeList(elements=()))) if function == IN:
                    if self.overloads[node.id] != ("in_list",):
                        return False
                case _:
                    return False
        return True

    def _names_a_constant(self, node: Node) -> bool:
        return self.types[node.id].name == "type" or self.names[node.id] in CONSTANTS
