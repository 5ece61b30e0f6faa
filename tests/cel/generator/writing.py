"""Follows the rules of the grammar at random."""

from random import Random

from cel.generator import grammar
from cel.generator.grammar import Rule, Slot
from cel.generator.kinds import DYN, Kind, choose, fill
from cel.generator.text import Part, Piece

# Some are Python's keywords or names, which must mean nothing in CEL.
_NAMES = (
    "x", "y", "k", "v", "i", "e", "acc", "item", "lambda", "None", "self", "def", "print", "__class__", "int2",
)  # fmt: skip
_BLANKS = ("\n", "\t", "  ", " // a note\n", "\r\n", "\f")


class Writer:
    def __init__(self, random: Random, *, driver: str = "gpu.nvidia.com", sloppiness: float = 0) -> None:
        """`sloppiness` is how often an expression of any kind stands where a certain one belongs."""
        self.random = random
        self.driver = driver
        self.scope: dict[str, Kind] = {}
        self.static = False
        """Whether the checker has to know the type of what is written now."""
        self._sloppiness = sloppiness
        self._blank = random.choice(_BLANKS) if random.random() < 0.03 else " "

    def write(self, kind: Kind, fuel: int) -> Piece:
        if self._sloppiness and self.random.random() < self._sloppiness:
            kind = choose(self.random, Kind("A"))
        leaf = fuel <= 0 or self.random.random() < 0.1
        if leaf and (name := self._variable_for(kind)):
            return Piece(kind, [name])
        rule, found = self._rule_for(kind, leaf=leaf)
        was_static = self.static
        self.static = was_static and not rule.fixed
        if rule.build:
            built = rule.build(self, kind, fuel - 1)
            piece = built if isinstance(built, Piece) else Piece(kind, [built])
        else:
            piece = Piece(kind, self._fill(rule, dict(found), fuel - 1))
        self.static = was_static
        return piece

    def leaf(self, kind: Kind) -> Piece:
        return self.write(kind, 0)

    def shares(self, fuel: int, count: int) -> list[int]:
        """The fuel, divided at random."""
        shares = [0] * count
        for _ in range(fuel if count else 0):
            shares[self.random.randrange(count)] += 1
        return shares

    def declare(self, kind: Kind) -> str:
        """A name that what is written from now on may use: the caller puts the scope back."""
        name = self.random.choice(_NAMES) if self.random.random() < 0.995 else "device"
        if name in self.scope and self.random.random() < 0.9:
            return self.declare(kind)
        self.scope = {**self.scope, name: kind}
        return name

    def any_kind(self) -> Kind:
        return choose(self.random, Kind("A"))

    def _rule_for(self, kind: Kind, *, leaf: bool) -> tuple[Rule, dict[str, Kind]]:
        for found_at in (leaf, not leaf):
            if choice := grammar.choice(kind, leaf=found_at, static=self.static):
                ((rule, found),) = self.random.choices(choice.rules, cum_weights=choice.weights)
                return rule, found
        raise LookupError(f"nothing says how to write {kind}")

    def _fill(self, rule: Rule, found: dict[str, Kind], fuel: int) -> list[Part]:
        outside = self.scope
        expressions = sum(isinstance(part, Slot) and not part.variable for part in rule.parts)
        shares = iter(self.shares(fuel, expressions))
        parts: list[Part] = []
        for part in rule.parts:
            if isinstance(part, str):
                parts.append(part if self._blank == " " else part.replace(" ", self._blank))
            elif part.variable:
                parts.append(self.declare(fill(part.kind, found, self.random)))
            else:
                parts.append(self.write(fill(part.kind, found, self.random), next(shares)))
        self.scope = outside
        if rule.optional_parentheses and self.random.random() < 0.15:
            parts[0], parts[-1] = str(parts[0])[1:], str(parts[-1])[:-1]
        return parts

    def _variable_for(self, kind: Kind) -> str | None:
        fitting = [name for name, known in self.scope.items() if known in {kind, DYN}]
        return self.random.choice(fitting) if fitting and self.random.random() < 0.7 else None
