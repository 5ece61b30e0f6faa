"""The parts of a tree: all of them, once, in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cel.checked_texts import NEWEST
from cel.generator.cases import case
from cel.shapes import nodes, shape
from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.parse import parse
from gpusharing.cel.tree import Entry, Node, parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", []),
        ("a", []),
        ("a.b", ["a"]),
        ("has(a.b)", ["a"]),
        ("f(a, 1)", ["a", "1"]),
        ("a.f(b)", ["a", "b"]),
        ("a + b", ["a", "b"]),
        ("[a, ?b]", ["a", "b"]),
        ("{a: b, ?c: d}", ["a", "b", "c", "d"]),
        ("google.protobuf.Value{string_value: a}", ["a"]),
        ("cel.bind(x, a, b)", ["[]", "a", "bool:False", "x", "b"]),
    ],
)
def test_the_parts_of_a_node(text: str, expected: list[str]) -> None:
    assert [shape(part) for part in parts(parse(text, NEWEST))] == expected


@given(st.integers(0, 100_000))
def test_all_nodes_of_a_tree_are_reached(number: int) -> None:
    try:
        root = parse(str(case(5, number).tree), NEWEST)
    except CompileError:
        return
    reached: list[Node] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        reached.append(node)
        waiting += parts(node)
    # An entry of a map is no value by itself.
    assert {node.id for node in reached} == {node.id for node in nodes(root) if not isinstance(node, Entry)}
