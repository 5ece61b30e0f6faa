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
    waiting = [result]
    result = None
    while waiting:
        try:
            needed = waiting[-1].send(result)
        except StopIteration as end:
            waiting.pop()
            result = end.value
        else:
            result = visit(needed)
            if type(result) is GeneratorType:
                waiting.append(result)
                result = None
    return cast("T", result)
