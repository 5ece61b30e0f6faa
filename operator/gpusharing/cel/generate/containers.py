"""Lists, maps and messages that an expression writes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpusharing.cel.cost.prices import NEW_LIST, NEW_MAP, NEW_MESSAGE
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.generate.code import Code, is_simple, joined, list_type, map_type
from gpusharing.cel.runtime import literals, messages
from gpusharing.cel.tree import MakeList, MakeMap, MakeMessage, Node
from gpusharing.cel.types import BYTES, DYN, INT, STRING, map_of

if TYPE_CHECKING:
    from gpusharing.cel.generate.generator import Generator


def make_list(g: Generator, node: MakeList) -> Code:
    with g.source.detached() as lines:
        codes = g.in_order(node.elements)
    item = DYN if node.optional else joined([code.type for code in codes])
    if all(code.is_constant for code in codes):
        value = constant(g, node, [code.constant for code in codes])
        return g.constant(value)._replace(type=list_type(item))
    g.charge(NEW_LIST)
    g.source.attach(lines)
    parts = [
        f"*{g.refer(literals.item)}({code.text})" if index in node.optional else code.text
        for index, code in enumerate(codes)
    ]
    fails = bool(node.optional) or any(code.fails for code in codes)
    return Code(f"[{', '.join(parts)}]", list_type(item), fails, any(code.breaks for code in codes))


def make_map(g: Generator, node: MakeMap) -> Code:
    with g.source.detached() as lines:
        codes = g.in_order(parts_of(node))
    if all(code.is_constant for code in codes):
        return g.constant(constant(g, node, [code.constant for code in codes]))
    g.charge(NEW_MAP)
    g.source.attach(lines)
    keys, values = codes[::2], codes[1::2]
    pairs = list(zip(keys, values, strict=True))
    breaks = any(code.breaks for code in codes)
    kind = map_type(joined([key.type for key in keys]), joined([value.type for value in values]))
    are_optional = _are_optional(node)
    if not any(are_optional) and all(key.type in (STRING, INT) for key in keys):
        text = ", ".join(f"{key.text}: {value.text}" for key, value in pairs)
        return Code(f"{{{text}}}", kind, any(code.fails for code in codes), breaks)
    entry = g.refer(literals.entry)
    text = ", ".join(f"{entry}({key.text}, {value.text})" for key, value in pairs)
    breaks = breaks or not all(is_simple(key.type) and key.type != BYTES for key in keys)
    return Code(f"{g.refer(literals.entries)}({g.refer(are_optional)}, [{text}])", map_of(DYN, DYN), True, breaks)


def parts_of(node: MakeMap) -> list[Node]:
    return [part for entry in node.entries for part in (entry.key, entry.value)]


def _are_optional(node: MakeMap) -> list[bool]:
    return [entry.optional for entry in node.entries]


def constant(g: Generator, node: MakeList | MakeMap, values: Sequence[Any]) -> Any:
    """Kubernetes makes it when it compiles, and what fails then is not accepted."""
    try:
        if isinstance(node, MakeList):
            contents = [literals.item(value) if i in node.optional else (value,) for i, value in enumerate(values)]
            return [item for content in contents for item in content]
        entries = [literals.entry(key, value) for key, value in zip(values[::2], values[1::2], strict=True)]
        return literals.entries(_are_optional(node), entries)
    except EvaluationError as error:
        raise g.fail(node, error.message) from None


def make_message(g: Generator, node: MakeMessage) -> Code:
    name = g.names[node.id]
    if not messages.can_be_made(name):
        raise g.fail(node, f"a value of type {name} is of no use in a selector")
    g.charge(NEW_MESSAGE)
    codes = g.in_order([value for _, value in node.fields])
    make = messages.maker(name, tuple(field for field, _ in node.fields), node.optional)
    text = f"{g.refer(make)}({', '.join(code.text for code in codes)})"
    return Code(text, DYN, fails=True, breaks=any(code.breaks for code in codes))
