"""Text as a tree, so that a part can be replaced by another of its kind."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from cel.generator.kinds import Kind

Part: TypeAlias = "str | Piece"


@dataclass(slots=True, eq=False)
class Piece:
    kind: Kind
    parts: list[Part]

    def __str__(self) -> str:
        texts: list[str] = []
        waiting: list[Part] = [self]
        while waiting:
            part = waiting.pop()
            if isinstance(part, str):
                texts.append(part)
            else:
                waiting.extend(reversed(part.parts))
        return "".join(texts)

    def pieces(self) -> Iterator["Piece"]:
        """This one and all within, from the outside in."""
        waiting = [self]
        while waiting:
            piece = waiting.pop()
            yield piece
            waiting.extend(part for part in reversed(piece.parts) if isinstance(part, Piece))

    def replaced(self, old: "Piece", new: Part) -> "Piece":
        """A copy of the tree, with one piece exchanged."""
        if self is old:
            return new if isinstance(new, Piece) else Piece(self.kind, [new])
        return Piece(self.kind, [part if isinstance(part, str) else part.replaced(old, new) for part in self.parts])
