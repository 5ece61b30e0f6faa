"""The parts of a tree."""

from collections.abc import Iterator

from gpusharing.cel.tree import Call, Comprehension, MakeList, MakeMap, MakeMessage, Node, Select


def nodes_of(root: Node) -> Iterator[Node]:
    """The node and all below it."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += _children(node)


def operands(call: Call) -> tuple[Node, ...]:
    """What a member function is called on is the first."""
    return call.arguments if call.target is None else (call.target, *call.arguments)


def _children(node: Node) -> list[Node]:
    match node:
        case Select():
            return [node.operand]
        case Call():
            return [*operands(node)]
        case MakeList():
            return [*node.elements]
        case MakeMap():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case MakeMessage():
            return [value for _, value in node.fields]
        case Comprehension():
            return [node.range, node.initial, node.condition, node.step, node.result]
    return []
