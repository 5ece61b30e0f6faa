"""Recursion over a tree without Python's stack, which is not as deep as expressions may be."""

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any, TypeAlias, TypeVar, cast

N = TypeVar("N")
T = TypeVar("T")

Steps: TypeAlias = Generator[N, T, T]
"""What to do at a node: yields the nodes whose result it needs, and returns its own."""


def walk(visit: Callable[[N], Steps[N, T] | T], root: N) -> T:
    """`visit` answers at once where there is nothing to wait for, which is half of all nodes."""
    result: Any = visit(root)
    if type(result) is not GeneratorType:
        return cast("T", result)
    waiting = []
    current = result
    result = None
    while True:
        try:
            while True:
                result = visit(current.send(result))
                if type(result) is GeneratorType:
                    waiting.append(current)
                    current = result
                    result = None
        except StopIteration as end:
            result = end.value
            if not waiting:
                return cast("T", result)
            current = waiting.pop()
