"""Macros, with one and with two variables, and `cel.bind`."""

from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.text import Piece
from cel.generator.writing import Writer

rules("""
1.5 bool: $list(A).all($x:A, $bool)
2 bool: $list(A).exists($x:A, $bool)
0.7 bool: $list(A).exists_one($x:A, $bool)
1 list(B): $list(A).map($x:A, $B)
0.6 list(B): $list(A).map($x:A, $bool, $B)
1 list(A): $list(A).filter($x:A, $bool)
0.5 bool: $map(K, A).all($x:K, $bool)
0.5 bool: $map(K, A).exists($x:K, $bool)
0.3 bool: $map(K, A).exists_one($x:K, $bool)
0.3 list(B): $map(K, A).map($x:K, $B)
0.3 list(K): $map(K, A).filter($x:K, $bool)
0.5 bool: $dyn.all($x:dyn, $bool)
0.5 bool: $dyn.exists($x:dyn, $bool)
0.2 bool: $dyn.exists_one($x:dyn, $bool)
0.2 list(B): $dyn.map($x:dyn, $B)
0.2 list(dyn): $dyn.filter($x:dyn, $bool)
0.7 bool: $list(A).all($i:int, $x:A, $bool)
0.7 bool: $list(A).exists($i:int, $x:A, $bool)
0.4 bool: $list(A).exists_one($i:int, $x:A, $bool)
0.4 bool: $list(A).existsOne($i:int, $x:A, $bool)
0.5 bool: $map(K, A).all($k:K, $v:A, $bool)
0.5 bool: $map(K, A).exists($k:K, $v:A, $bool)
0.2 bool: $map(K, A).existsOne($k:K, $v:A, $bool)
0.2 bool: $dyn.all($k:dyn, $v:dyn, $bool)
0.2 bool: $dyn.exists($k:dyn, $v:dyn, $bool)
0.5 list(B): $list(A).transformList($i:int, $x:A, $B)
0.4 list(B): $list(A).transformList($i:int, $x:A, $bool, $B)
0.2 list(B): $map(K, A).transformList($k:K, $v:A, $B)
0.5 map(int, B): $list(A).transformMap($i:int, $x:A, $B)
0.3 map(int, B): $list(A).transformMap($i:int, $x:A, $bool, $B)
0.5 map(K, B): $map(K, A).transformMap($k:K, $v:A, $B)
0.3 map(K, B): $map(K, A).transformMap($k:K, $v:A, $bool, $B)
0.4 map(L, B): $list(A).transformMapEntry($i:int, $x:A, {$L: $B})
0.2 map(L, B): $list(A).transformMapEntry($i:int, $x:A, $bool, {$L: $B})
0.4 map(L, B): $map(K, A).transformMapEntry($k:K, $v:A, {$L: $B})
0.2 map(L, B): $map(K, A).transformMapEntry($k:K, $v:A, $bool, {$L: $B})
0.2 map(L, B): $list(A).transformMapEntry($i:int, $x:A, $map(L, B))
""")


@rule("A", 1)
def _bind(writer: Writer, kind: Kind, fuel: int) -> Piece:
    outside = writer.scope
    value_kind = writer.any_kind()
    first, second = writer.shares(fuel, 2)
    value = writer.write(value_kind, first)
    name = writer.declare(value_kind)
    body = writer.write(kind, second)
    writer.scope = outside
    return Piece(kind, [f"cel.bind({name}, ", value, ", ", body, ")"])
