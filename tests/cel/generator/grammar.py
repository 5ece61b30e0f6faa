"""Rules that say how an expression of a kind can be written.

A line of a table is `kind: template`, with `$kind` where an expression of that kind goes and `$name:kind` where a
variable gets its name, which what follows in the same template may use; a number before the line is the rule's weight,
and `~` says that the checker knows nothing about the expression's type.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from cel.generator.kinds import Kind, has_variables, parse, unify

if TYPE_CHECKING:
    from cel.generator.text import Piece
    from cel.generator.writing import Writer

Build: TypeAlias = "Callable[[Writer, Kind, int], Piece | str]"
"""Gets the kind that is wanted, and the fuel: how large the expression should become."""

AnyBuild = TypeVar("AnyBuild", bound="Build")


@dataclass(frozen=True, slots=True)
class Slot:
    kind: Kind
    variable: bool = False  # a new variable's name goes here, rather than an expression


@dataclass(frozen=True, slots=True)
class Rule:
    result: Kind
    weight: float
    parts: tuple[str | Slot, ...] = ()
    build: "Build | None" = None
    leaf: bool = False
    dynamic: bool = False  # the checker does not know the type

    @property
    def fixed(self) -> bool:
        """Whether the checker knows the type, whatever the parts are."""
        return not (self.dynamic or has_variables(self.result))

    @property
    def optional_parentheses(self) -> bool:
        first, last = self.parts[0], self.parts[-1]
        return isinstance(first, str) and first.startswith("(") and isinstance(last, str) and last.endswith(")")


@dataclass(frozen=True, slots=True)
class Choice:
    """The rules for one kind, with what their variables are then, and the sums of their weights."""

    rules: tuple[tuple[Rule, dict[str, Kind]], ...]
    weights: tuple[float, ...]


_RULES: list[Rule] = []
_LINE = re.compile(r"(?:(?P<weight>[\d.]+) )?(?P<dynamic>~)?(?P<kind>[A-Za-z][^:]*): (?P<template>.*)")
_KIND = r"[A-Za-z][A-Za-z0-9]*(?:\((?:[^()]|\([^()]*\))*\))?"
_SLOT = re.compile(rf"\$(?P<variable>[a-z]:)?(?P<kind>{_KIND})")


def rules(table: str) -> None:
    for line in table.strip().splitlines():
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"{line!r} is no rule")
        parts = tuple(_parts(found["template"]))
        leaf = not any(isinstance(part, Slot) for part in parts)
        dynamic = found["dynamic"] is not None
        _RULES.append(Rule(parse(found["kind"]), float(found["weight"] or 1), parts, leaf=leaf, dynamic=dynamic))


def rule(
    kind: str | Kind, weight: float = 1, *, leaf: bool = False, dynamic: bool = False
) -> Callable[[AnyBuild], AnyBuild]:
    result = parse(kind) if isinstance(kind, str) else kind

    def add(build: AnyBuild) -> AnyBuild:
        _RULES.append(Rule(result, weight, build=build, leaf=leaf, dynamic=dynamic))
        return build

    return add


def _parts(template: str) -> Iterator[str | Slot]:
    end = 0
    for found in _SLOT.finditer(template):
        if found.start() > end:
            yield template[end : found.start()]
        yield Slot(parse(found["kind"]), variable=found["variable"] is not None)
        end = found.end()
    if end < len(template):
        yield template[end:]


@cache
def choice(wanted: Kind, *, leaf: bool, static: bool) -> Choice | None:
    """`static` leaves out those of which the checker would not know the type."""
    fitting = []
    for each in _RULES:
        found: dict[str, Kind] = {}
        if each.leaf == leaf and not (static and each.dynamic) and unify(each.result, wanted, found):
            fitting.append((each, found))
    return Choice(tuple(fitting), tuple(accumulate(each.weight for each, _ in fitting))) if fitting else None
