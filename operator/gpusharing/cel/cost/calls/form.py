"""A call as estimators see it, and what they answer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from gpusharing.cel.cost.paths import Path
from gpusharing.cel.cost.prices import PER_CHARACTER, PER_CHARACTER_OF_PATTERN
from gpusharing.cel.cost.ranges import ONE, UNKNOWN, Range
from gpusharing.cel.declarations.types import Type
from gpusharing.cel.tree import Constantly, Node


@dataclass(slots=True)
class Operand:
    """The target or an argument of a call."""

    node: Node
    type: Type
    path: Path
    known_size: Range | None

    @property
    def size(self) -> Range:
        return self.known_size or UNKNOWN

    @property
    def literal_integer(self) -> int | None:
        value = self.node.value if isinstance(self.node, Constantly) else None
        return value if type(value) is int else None


@dataclass(slots=True)
class CallForm:
    """Of a call with one of its overloads."""

    function: str
    overload: str
    operands: list[Operand]
    """The target first, if there is one."""
    minor: int
    """Of the Kubernetes version."""

    @property
    def first(self) -> Range:
        """The size of the first operand, which many functions only look at."""
        return self.operands[0].size


class CallEstimate(NamedTuple):
    cost: Range
    """Without what the operands cost."""
    size: Range | None = None


Estimator: TypeAlias = Callable[[CallForm], CallEstimate | None]
"""None: whoever comes next may estimate."""


def for_each(names: Iterable[str], estimator: Estimator) -> dict[str, Estimator]:
    return dict.fromkeys(names, estimator)


def of_pattern(text: Range, pattern: Range) -> Range:
    """Of applying a regular expression. An empty text takes some work too."""
    return text.plus(ONE).scaled(PER_CHARACTER).times(pattern.scaled(PER_CHARACTER_OF_PATTERN))
