"""Lists, maps and messages that an expression writes out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gpusharing.cel.cost.prices import NEW_LIST, NEW_MAP, NEW_MESSAGE
from gpusharing.cel.declarations.types import BYTES, DYN, INT, STRING, Type, map_of
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.generate.code import Code, is_simple, joined, list_type, map_type
from gpusharing.cel.runtime import literals, messages
from gpusharing.cel.runtime.keys import key_of
from gpusharing.cel.tree import Entry, MakeList, MakeMap, MakeMessage, Node

if TYPE_CHECKING:
    from gpusharing.cel.generate.generator import Generator


def make_list(g: Generator, node: MakeList) -> Code:
    if node.optional:
        return _list_with_optional_items(g, node)
    with g.source.detached() as lines:
        codes = g.in_order(node.elements)
    item = joined([code.type for code in codes])
    if all(code.is_constant for code in codes):
        value = constant(g, node, [code.constant for code in codes])
        return g.constant(value)._replace(type=list_type(item))
    g.charge(NEW_LIST)
    g.source.attach(lines)
    return _written(f"[{', '.join(code.text for code in codes)}]", list_type(item), codes)


def _list_with_optional_items(g: Generator, node: MakeList) -> Code:
    """What is to be optional and is not, fails before the next item is looked at."""
    values: list[Code] = []

    def item(index: int, element: Node) -> Code:
        (code,) = g.in_order([element])
        values.append(code)
        if index not in node.optional:
            return code
        opened = Code(f"{g.refer(literals.item)}({code.text})", DYN, fails=True, breaks=code.breaks)
        return g.settled(opened) if g.is_metered else opened

    with g.source.detached() as lines:
        codes = g.done_in_order(partial(item, index, element) for index, element in enumerate(node.elements))
    if all(value.is_constant for value in values):
        made = constant(g, node, [value.constant for value in values])
        return g.constant(made)._replace(type=list_type(DYN))
    g.charge(NEW_LIST)
    g.source.attach(lines)
    parts = [f"*{code.text}" if index in node.optional else code.text for index, code in enumerate(codes)]
    return _written(f"[{', '.join(parts)}]", list_type(DYN), codes)


def make_map(g: Generator, node: MakeMap) -> Code:
    if any(entry.optional or g.types[entry.key.id] not in (STRING, INT) for entry in node.entries):
        return _map_of_unusual_entries(g, node)
    with g.source.detached() as lines:
        codes = g.in_order(parts_of(node))
    if all(code.is_constant for code in codes):
        return g.constant(constant(g, node, [code.constant for code in codes]))
    g.charge(NEW_MAP)
    g.source.attach(lines)
    # The checker's type of a key is not always the one that it has: `dyn(b"").orValue("")` is a string to it.
    keys = [code if code.type in (STRING, INT) else _key(g, code) for code in codes[::2]]
    values = codes[1::2]
    kind = map_type(joined([key.type for key in keys]), joined([value.type for value in values]))
    text = ", ".join(f"{key.text}: {value.text}" for key, value in zip(keys, values, strict=True))
    return _written(f"{{{text}}}", kind, [*keys, *values])


def _key(g: Generator, code: Code) -> Code:
    return Code(f"{g.refer(key_of)}({code.text})", DYN, fails=True, breaks=True)


def _map_of_unusual_entries(g: Generator, node: MakeMap) -> Code:
    """What cannot be a key, or is to be optional and is not, fails before the next entry is looked at."""
    parts: list[Code] = []

    def entry(entry: Entry) -> Code:
        key, value = codes = g.in_order([entry.key, entry.value])
        parts.extend(codes)
        make = literals.optional_entry if entry.optional else literals.entry
        breaks = key.breaks or value.breaks or not is_simple(key.type) or key.type == BYTES
        made = Code(f"{g.refer(make)}({key.text}, {value.text})", DYN, fails=True, breaks=breaks)
        return g.settled(made) if g.is_metered else made

    with g.source.detached() as lines:
        codes = g.done_in_order(partial(entry, each) for each in node.entries)
    if all(part.is_constant for part in parts):
        return g.constant(constant(g, node, [part.constant for part in parts]))
    g.charge(NEW_MAP)
    g.source.attach(lines)
    text = ", ".join(code.text for code in codes)
    return _written(f"{g.refer(literals.entries)}([{text}])", map_of(DYN, DYN), codes)


def _written(text: str, kind: Type, codes: Sequence[Code]) -> Code:
    return Code(text, kind, any(code.fails for code in codes), any(code.breaks for code in codes))


def parts_of(node: MakeMap) -> list[Node]:
    return [part for entry in node.entries for part in (entry.key, entry.value)]


def constant(g: Generator, node: MakeList | MakeMap, values: Sequence[Any]) -> Any:
    """Kubernetes makes it when it compiles, and what fails then is not accepted."""
    try:
        if isinstance(node, MakeList):
            contents = [literals.item(value) if i in node.optional else (value,) for i, value in enumerate(values)]
            return [item for content in contents for item in content]
        makers = [literals.optional_entry if entry.optional else literals.entry for entry in node.entries]
        return literals.entries(
            make(key, value) for make, key, value in zip(makers, values[::2], values[1::2], strict=True)
        )
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
