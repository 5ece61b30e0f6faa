"""What an expression is, as far as the generator needs to know: CEL's types, and special texts such as patterns.

A single capital letter stands for any kind; some letters stand for some kinds only.
"""

from random import Random
from typing import Final, NamedTuple


class Kind(NamedTuple):
    name: str
    arguments: tuple["Kind", ...] = ()


def parse(text: str) -> Kind:
    kind, rest = _parse(text.strip())
    if rest:
        raise ValueError(f"{text!r} is no kind")
    return kind


def _parse(text: str) -> tuple[Kind, str]:
    end = next((i for i, character in enumerate(text) if not character.isalnum()), len(text))
    name, rest = text[:end], text[end:]
    arguments = []
    if rest.startswith("("):
        while not rest.startswith(")"):
            argument, rest = _parse(rest[1:].lstrip())
            arguments.append(argument)
        rest = rest[1:]
    return Kind(name, tuple(arguments)), rest


BOOL: Final = Kind("bool")
DYN: Final = Kind("dyn")

_COMPARABLE: Final = tuple(map(Kind, ("int", "string", "double", "uint", "bool", "bytes", "duration", "timestamp")))
_NUMBERS: Final = tuple(map(Kind, ("int", "uint", "double")))
_SOME: Final = {
    "C": _COMPARABLE,
    "D": _COMPARABLE,
    "N": _NUMBERS,
    "M": _NUMBERS,
    "S": (*_NUMBERS, Kind("duration")),
    "K": tuple(map(Kind, ("string", "int", "bool", "uint"))),
    "L": tuple(map(Kind, ("string", "int", "bool", "uint"))),
}
_USUAL: Final = tuple(
    map(Kind, ("int", "string", "int", "string", "bool", "double", "uint", "bytes", "null", "semver", "quantity"))
)
_RARE: Final = tuple(map(Kind, ("duration", "timestamp", "url", "ip", "cidr", "type", "format", "dyn")))


def is_variable(kind: Kind) -> bool:
    return len(kind.name) == 1


def has_variables(kind: Kind) -> bool:
    return is_variable(kind) or any(map(has_variables, kind.arguments))


def allows(variable: Kind, kind: Kind) -> bool:
    return kind in _SOME.get(variable.name, (kind,))


def choose(random: Random, variable: Kind, depth: int = 0) -> Kind:
    """A kind that the variable may stand for."""
    if some := _SOME.get(variable.name):
        return random.choice(some)
    roll = random.random()
    if roll < 0.15 and depth < 2:
        element = choose(random, variable, depth + 1)
        match random.randrange(4):
            case 0 | 1:
                return Kind("list", (element,))
            case 2:
                return Kind("map", (choose(random, Kind("K")), element))
            case _:
                return Kind("optional", (element,))
    return random.choice(_RARE if roll < 0.25 else _USUAL)


def unify(pattern: Kind, wanted: Kind, found: dict[str, Kind]) -> bool:
    """Whether the pattern can be the wanted kind; `found` takes what its variables are then."""
    if is_variable(pattern):
        return allows(pattern, wanted) and found.setdefault(pattern.name, wanted) == wanted
    return (
        pattern.name == wanted.name
        and len(pattern.arguments) == len(wanted.arguments)
        and all(unify(part, other, found) for part, other in zip(pattern.arguments, wanted.arguments, strict=True))
    )


def fill(pattern: Kind, found: dict[str, Kind], random: Random) -> Kind:
    """The pattern with kinds for its variables, those that are found and random ones for the others."""
    if is_variable(pattern):
        if pattern.name not in found:
            found[pattern.name] = choose(random, pattern)
        return found[pattern.name]
    if not pattern.arguments:
        return pattern
    return Kind(pattern.name, tuple(fill(argument, found, random) for argument in pattern.arguments))
