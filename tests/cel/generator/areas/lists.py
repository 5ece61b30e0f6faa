"""Lists: literals, Kubernetes' own functions, cel-go's extension, and sets."""

from cel.generator.elements import Elements
from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.text import Part, Piece
from cel.generator.writing import Writer

rules("""
0.5 list(A): []
1 list(A): ($list(A) + $list(A))
0.1 ~list(A): ($list(A) + $dyn)
0.4 A: $list(A)[$index]
0.2 A: $list(A)[$int]
0.1 A: $list(A)[dyn($double)]
0.1 A: $list(A)[dyn($uint)]
0.1 A: $list(A)[dyn($index)]
1 A: [$A][0]
0.02 A: $list(A)[$double]
0.5 int: $list(A).indexOf($A)
0.5 int: $list(A).lastIndexOf($A)
0.7 bool: $list(C).isSorted()
0.5 S: $list(S).sum()
0.5 C: $list(C).min()
0.5 C: $list(C).max()
0.7 bool: $list(A).includes($A)
0.4 bool: $dyn.includes($A)
0.2 bool: $A.includes($A)
0.5 list(A): $list(A).distinct()
0.2 list(dyn): $list(A).flatten()
0.3 list(A): $list(list(A)).flatten()
0.2 list(A): $list(list(A)).flatten($index)
0.5 list(A): $list(A).reverse()
0.7 list(A): $list(A).slice($index, $index)
0.6 list(C): $list(C).sort()
0.6 list(A): $list(A).sortBy($x:A, $C)
1 list(int): lists.range($index)
0.3 list(int): lists.range($int)
0.5 optional(A): $list(A).first()
0.5 optional(A): $list(A).last()
0.7 bool: sets.contains($list(A), $list(A))
0.5 bool: sets.equivalent($list(A), $list(A))
0.7 bool: sets.intersects($list(A), $list(A))
0.2 bool: sets.intersects($dyn, $list(A))
0.2 bool: $dyn.isSorted()
0.2 ~int: $dyn.sum()
0.2 ~dyn: $dyn.min()
0.2 ~dyn: $dyn[$index]
0.2 list(dyn): $dyn.reverse()
0.2 list(dyn): $dyn.sort()
0.2 list(dyn): [$A, $B]
""")


@rule("list(A)", 3)
def _list(writer: Writer, kind: Kind, fuel: int) -> Piece:
    elements = Elements(writer, *kind.arguments)
    parts: list[Part] = ["["]
    count = writer.random.randint(1, 4)
    for position, share in enumerate(writer.shares(fuel, count)):
        if writer.random.random() < 0.04:
            parts += ["?", elements.write_optional(share)]
        else:
            parts.append(elements.write(share))
        parts.append(", " if position < count - 1 else "")
    parts.append(",]" if writer.random.random() < 0.03 else "]")
    return Piece(kind, parts)


@rule("list(A)", 3, leaf=True)
def _short_list(writer: Writer, kind: Kind, fuel: int) -> Piece:
    return _list(writer, kind, 0)
