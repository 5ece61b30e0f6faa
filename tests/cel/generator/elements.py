"""Elements of list and map literals: of types that the checker knows, or of none that it knows. Not both."""

from cel.generator.kinds import Kind
from cel.generator.text import Piece
from cel.generator.writing import Writer


class Elements:
    """Writes the elements of one literal."""

    def __init__(self, writer: Writer, kind: Kind) -> None:
        self._writer = writer
        roll = writer.random.random()
        self._optional = Kind("optional", (kind,))
        self._kind = kind if writer.static or roll < 0.7 else Kind("dynamic", (kind,))
        self._static = writer.static or roll < 0.68

    def write(self, fuel: int) -> Piece:
        return self._write(self._kind, fuel, static=self._static)

    def write_optional(self, fuel: int) -> Piece:
        """What may stand behind a `?`. cel-go 0.29 panics if it does not know the type, which it may do sometimes."""
        return self._write(self._optional, fuel, static=self._writer.random.random() < 0.97)

    def _write(self, kind: Kind, fuel: int, *, static: bool) -> Piece:
        was_static, self._writer.static = self._writer.static, static
        element = self._writer.write(kind, fuel)
        self._writer.static = was_static
        return element
