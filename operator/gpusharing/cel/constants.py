"""What Kubernetes evaluates when it compiles an expression."""

from typing import Final

from gpusharing.cel.checked import Checked
from gpusharing.cel.declarations.messages import CONSTANTS
from gpusharing.cel.tree import IN, Call, Constantly, MakeList, MakeMap, Name, Node, Select

CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)


def is_constant(checked: Checked, root: Node) -> bool:
    """Whether the value is known then. Neither operators nor functions are applied, except conversions."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        match node:
            case Constantly():
                pass
            case Name() | Select() if node.id in checked.names and _names_a_constant(checked, node):
                pass
            case MakeList(elements=elements):
                waiting += elements
            case MakeMap(entries=entries):
                waiting += [part for entry in entries for part in (entry.key, entry.value)]
            case Call(function=function, target=None, arguments=(argument,)) if function in CONVERSIONS:
                waiting.append(argument)
            case Call(function=function, arguments=(_, MakeList(elements=()))) if function == IN:
                if checked.overloads[node.id] != ("in_list",):
                    return False
            case _:
                return False
    return True


def _names_a_constant(checked: Checked, node: Node) -> bool:
    return checked.types[node.id].name == "type" or checked.names[node.id] in CONSTANTS
