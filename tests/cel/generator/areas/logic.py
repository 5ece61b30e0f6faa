"""Operators on booleans, comparisons, conditionals, and what fails inside of them."""

from cel.generator.grammar import rules

rules("""
5 bool: ($bool && $bool)
5 bool: ($bool || $bool)
1 bool: ($bool && $bool && $bool)
1 bool: ($bool || $bool || $bool)
2 bool: !$bool
0.3 bool: !!$bool
5 bool: ($A == $A)
2 bool: ($A != $A)
1.5 bool: ($C < $C)
1 bool: ($C <= $C)
1.5 bool: ($C > $C)
1 bool: ($C >= $C)
1 bool: ($N < $M)
0.7 bool: ($N <= $M)
1 bool: ($N > $M)
0.7 bool: ($N >= $M)
0.7 bool: (dyn($N) == $M)
0.7 bool: (dyn($A) == $B)
0.5 bool: ($A != dyn($B))
0.7 bool: ($dyn == $A)
0.5 bool: ($A == $dyn)
0.5 bool: ($dyn == $dyn)
0.4 bool: ($dyn != $A)
0.3 bool: ($dyn < $C)
0.3 bool: ($C >= $dyn)
0.2 bool: ($dyn > $dyn)
3 bool: ($A in $list(A))
0.4 bool: ($A in dyn($list(B)))
1 bool: ($K in $map(K, A))
0.3 bool: ($dyn in $list(A))
0.3 bool: ($dyn in $dyn)
0.3 bool: ($A in [])
0.1 ~bool: $dyn
0.15 bool: (1 / 0 == 1)
0.1 bool: ([true][$index])
0.2 bool: ({"a": true}[$string])
0.5 ~bool: ($bool ? $dyn : $bool)
1 A: ($bool ? $A : $A)
0.2 ~A: dyn($A)
0.1 ~A: $dyn
dynamic(A): dyn($A)
3 ~dyn: dyn($A)
0.3 ~dyn: $A
""")
