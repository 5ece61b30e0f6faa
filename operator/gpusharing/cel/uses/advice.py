"""What people mean who ask an attribute for an amount: memory and the like are capacities.

Kubernetes accepts such a selector, since it does not know the attributes, and then finds none on any device.
"""

from gpusharing.cel.tree import (
    COMPARISONS,
    Call,
    Constantly,
    Name,
    Node,
    Select,
    parts,
)
from gpusharing.cel.tree.writing import written


def capacity_instead(root: Node, name: str) -> str:
    """How the expression would ask for a capacity where it asks for an attribute of that name, and does not find it.
    Empty if it does not ask for one.
    """
    path = ""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        path = path or _capacity(node, name)
        comparison = _comparison(node, name)
        if comparison:
            return comparison
        waiting += parts(node)
    return path


def _comparison(node: Node, name: str) -> str:
    match node:
        case Call(function=function, arguments=(left, right)) if function in COMPARISONS:
            sides = [_capacity(side, name) or _amount(side) for side in (left, right)]
            if all(sides) and not all(map(_amount, (left, right))):
                return f"{sides[0]}.compareTo({sides[1]}) {function.strip('_')} 0"
    return ""


def _capacity(node: Node, name: str) -> str:
    """The capacity of the name in the domain of the attribute."""
    match node:
        case Select(operand=domain, field=field) if field == name:
            return _in_domain(domain, f".{name}")
        case Call(function="_[_]", arguments=(domain, Constantly(value=key))) if key == name:
            return _in_domain(domain, f"[{written(node.arguments[1])}]")
    return ""


def _in_domain(domain: Node, key: str) -> str:
    match domain:
        case Call(function="_[_]", arguments=(Select(operand=Name(name="device"), field="attributes"), of)):
            return f"device.capacity[{written(of)}]{key}"
        case Select(operand=Select(operand=Name(name="device"), field="attributes"), field=of):
            return f"device.capacity.{of}{key}"
    return ""


def _amount(node: Node) -> str:
    return f"quantity({written(node)})" if isinstance(node, Constantly) and isinstance(node.value, str) else ""
