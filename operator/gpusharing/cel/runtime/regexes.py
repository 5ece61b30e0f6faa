"""`matches`, `find` and `findAll`."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime.faults import no_such_overload
from gpusharing.cel.values.optional import NONE, Optional
from gpusharing.cel.values.regex import Regex
from gpusharing.cel.values.type_values import TypeValue

MOST_MEMORY: Final = 1 << 18
"""Bytes of a pattern that is known only when an expression is evaluated."""
REMEMBERED: Final = 8
"""Such patterns, which mostly are the same again in the next turn of a loop: to read one may take a thousand times as
long as to look for it."""


def computed(pattern: str) -> Regex:
    read = _read(pattern)
    if isinstance(read, Regex):
        return read
    raise type(read)(read.message)


@lru_cache(REMEMBERED)
def _read(pattern: str) -> Regex | EvaluationError:
    try:
        return Regex(pattern, MOST_MEMORY)
    except EvaluationError as error:
        return type(error)(error.message)


def matches(text: Any, pattern: Any) -> bool:
    if type(text) is not str or type(pattern) is not str:
        no_such_overload()
    return computed(pattern).matches(text)


def find(text: str, pattern: str) -> str:
    return computed(pattern).find(text)


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return computed(pattern).find_all(text, limit)


def with_constant_pattern(function: str, regex: Regex) -> Callable[..., Any]:
    """The same functions as Kubernetes calls them when it knows the pattern beforehand: not so strict about types."""
    match function:
        case "matches":
            of_text = regex.matches
            return lambda text: of_text(text if type(text) is str else _text_inside(text))
        case "find":
            return lambda text: regex.find(_text_inside(text))
        case _:
            return lambda text, limit=-1: regex.find_all(_text_inside(text), _integer_inside(limit))


def _text_inside(value: Any) -> str:
    """Of a type it is the name, of an optional value its content."""
    value = _content(value)
    if type(value) is TypeValue:
        return value.name
    return value if type(value) is str else no_such_overload()


def _integer_inside(value: Any) -> int:
    value = _content(value)
    return value if type(value) is int else no_such_overload()


def _content(value: Any) -> Any:
    while type(value) is Optional and value is not NONE:
        value = value.value
    return value
