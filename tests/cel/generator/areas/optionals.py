"""Optional values."""

from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.text import Piece
from cel.generator.writing import Writer

rules("""
0.5 optional(A): optional.none()
2 optional(A): optional.of($A)
1 optional(A): optional.ofNonZeroValue($A)
1 optional(A): $map(K, A)[?$K]
0.5 optional(A): $map(string, A).?a
0.3 optional(A): $map(string, A).?`a`
1 optional(A): $list(A)[?$index]
0.3 optional(A): $optional(list(A))[?$index]
0.3 optional(A): $optional(list(A))[$index]
0.3 optional(A): $optional(map(K, A))[?$K]
0.3 optional(A): $optional(map(K, A))[$K]
0.3 optional(A): $optional(map(string, A)).?a
0.3 optional(A): $optional(map(string, A)).a
0.7 optional(A): $optional(A).or($optional(A))
0.6 optional(B): $optional(A).optMap($x:A, $B)
0.6 optional(B): $optional(A).optFlatMap($x:A, $optional(B))
1 A: $optional(A).orValue($A)
0.5 A: optional.of($A).value()
0.1 A: $optional(A).value()
1 bool: $optional(A).hasValue()
0.2 bool: $dyn.hasValue()
0.1 ~A: $dyn.orValue($A)
0.2 bool: has($optional(map(string, A)).a)
0.2 bool: ($optional(A) == $optional(A))
0.3 list(A): $list(optional(A)).unwrapOpt()
0.3 list(A): optional.unwrap($list(optional(A)))
0.3 list(A): [?$optional(A), $A]
0.3 map(K, A): {?$K: $optional(A)}
""")


@rule("optional(A)", leaf=True)
def _optional(writer: Writer, kind: Kind, _fuel: int) -> Piece:
    return Piece(kind, ["optional.of(", writer.leaf(*kind.arguments), ")"])
