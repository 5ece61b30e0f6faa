"""Trees may be deeper than Python's stack."""

from collections.abc import Generator

import pytest

from gpusharing.cel.tree.walking import Steps, walk

Tree = tuple["Tree", ...]


def size(tree: Tree) -> Steps[Tree, int] | int:
    return _size(tree) if tree else 1


def _size(tree: Tree) -> Generator[Tree, int, int]:
    total = 1
    for branch in tree:
        total += yield branch
    return total


def test_every_part_is_visited_once() -> None:
    assert walk(size, ((), ((), ()), (((),),))) == 8


def test_depth_is_no_danger() -> None:
    tree: Tree = ()
    for _ in range(100_000):
        tree = (tree,)
    assert walk(size, tree) == 100_001
    while tree:  # Python itself would free it by recursion
        (tree,) = tree


def test_an_error_ends_it() -> None:
    def visit(tree: Tree) -> Steps[Tree, int] | int:
        if not tree:
            raise KeyError("leaf")
        return _size(tree)

    with pytest.raises(KeyError, match="leaf"):
        walk(visit, ((),))
