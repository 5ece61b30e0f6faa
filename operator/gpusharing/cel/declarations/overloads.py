"""Tables of functions, written as cel-go prints their signatures:

    charAt
        string_char_at_int: string.(int) -> string

What stands before the dot is what a member function is called on. Capital letters are types to be found. An overload
that not all versions of Kubernetes have says so after its id.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpusharing.cel.declarations import types
from gpusharing.cel.declarations.types import Type, parameter


@dataclass(frozen=True, slots=True)
class Overload:
    id: str
    is_member: bool
    parameters: tuple[Type, ...]
    """With what a member function is called on as the first."""
    result: Type
    is_open: bool
    """Whether a call has to find some of the types."""


_NAME: Final = re.compile(r"\S+")
_LINE: Final = re.compile(
    r"    (?P<id>\S+)(?: \((?P<when>since|until|only) 1\.(?P<minor>\d+)\))?: "
    r"(?:(?P<target>.+)\.)?\((?P<arguments>.*)\) -> (?P<result>.+)"
)
_NAMED: Final = {each.name: each for each in vars(types).values() if isinstance(each, Type)}
_NAMED.update(duration=types.DURATION, timestamp=types.TIMESTAMP)
_WORD: Final = re.compile(r"[\w.]+|[(),]")


def overloads(table: str, minor: int) -> Mapping[str, Sequence[Overload]]:
    """Of each function that has any in this version. Raises ValueError for what the table declares twice, and for what
    cannot be read.
    """
    functions: dict[str, list[Overload]] = {}
    of_function: list[Overload] | None = None
    for line in table.strip("\n").split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            if not _NAME.fullmatch(line):
                raise ValueError(f"neither a function nor an overload: {line}")
            if line in functions:
                raise ValueError(f"declared twice: {line}")
            of_function = functions[line] = []
        elif of_function is None:
            raise ValueError(f"an overload of no function: {line}")
        elif match["when"] is None or _holds(match["when"], int(match["minor"]), minor):
            if any(match["id"] == other.id for other in of_function):
                raise ValueError(f"declared twice: {match['id']}")
            of_function.append(_overload(match))
    return {name: found for name, found in functions.items() if found}


def _holds(when: str, bound: int, minor: int) -> bool:
    return {"since": minor >= bound, "until": minor <= bound, "only": minor == bound}[when]


def _overload(match: re.Match[str]) -> Overload:
    target = match["target"]
    arguments = [target] if target else []
    parameters = (*map(_type, arguments), *_type(f"list({match['arguments']})").parameters)
    result = _type(match["result"])
    is_open = any(each.is_open for each in (*parameters, result))
    return Overload(match["id"], target is not None, parameters, result, is_open)


def _type(text: str) -> Type:
    return _read_type(_WORD.findall(text)[::-1])


def _read_type(words: list[str]) -> Type:
    """From the end of the list."""
    name = words.pop()
    if not words or words[-1] != "(":
        # One object for each, since those of the checker are compared most often.
        return _NAMED.get(name) or (parameter(name) if len(name) == 1 else Type(name))
    words.pop()
    parts = []
    while words[-1] != ")":
        parts.append(_read_type(words))
        if words[-1] == ",":
            words.pop()
    words.pop()
    return Type(name, tuple(parts))
