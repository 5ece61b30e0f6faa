"""Maps."""

from cel.generator.elements import Elements
from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.text import Part, Piece
from cel.generator.writing import Writer

rules("""
0.5 map(K, A): {}
0.3 A: $map(K, A)[$K]
0.2 A: $map(string, A).a
0.1 A: $map(string, A).`a`
0.1 A: $map(int, A)[dyn($double)]
0.1 A: $map(uint, A)[dyn($int)]
0.02 A: $map(int, A)[$double]
0.5 A: {"a": $A}.a
0.3 A: {"abc": $A, "a": $A}["a"]
0.3 A: {1: $A}[dyn(1u)]
0.7 bool: has($map(string, A).a)
0.1 ~dyn: $map(K, A)[dyn($L)]
0.2 map(string, dyn): {"a": $A, "b": $B}
""")


@rule("map(A, B)", 3)
def _map(writer: Writer, kind: Kind, fuel: int) -> Piece:
    keys, values = (Elements(writer, argument) for argument in kind.arguments)
    parts: list[Part] = ["{"]
    count = writer.random.choice((1, 1, 1, 2, 3))
    for position, share in enumerate(writer.shares(fuel, count)):
        if writer.random.random() < 0.05:
            parts += ["?", keys.write(0), ": ", values.write_optional(share)]
        else:
            parts += [keys.write(0), ": ", values.write(share)]
        parts.append(", " if position < count - 1 else "")
    parts.append(",}" if writer.random.random() < 0.03 else "}")
    return Piece(kind, parts)


@rule("map(A, B)", 3, leaf=True)
def _small_map(writer: Writer, kind: Kind, _fuel: int) -> Piece:
    return _map(writer, kind, 0)
