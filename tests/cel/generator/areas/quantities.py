"""Quantities."""

from cel.generator import values
from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.quoting import quoted
from cel.generator.writing import Writer

rules("""
1 quantity: quantity($quantityText)
0.2 quantity: quantity($string)
1 bool: isQuantity($quantityText)
1.5 bool: $quantity.isGreaterThan($quantity)
1.5 bool: $quantity.isLessThan($quantity)
0.7 int: $quantity.compareTo($quantity)
0.7 bool: ($quantity.compareTo($quantity) >= 0)
1 quantity: $quantity.add($quantity)
0.7 quantity: $quantity.add($int)
1 quantity: $quantity.sub($quantity)
0.7 quantity: $quantity.sub($int)
0.7 bool: $quantity.isInteger()
0.3 int: $quantity.asInteger()
0.3 double: $quantity.asApproximateFloat()
0.3 int: sign($quantity)
0.2 int: sign($dyn)
0.2 int: $dyn.compareTo($quantity)
0.2 bool: $dyn.isGreaterThan($quantity)
0.3 bool: ($dyn >= $string)
0.2 bool: ($quantity == $A)
0.1 quantityText: $string
""")


@rule("quantity", 2, leaf=True)
def _quantity(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return f"quantity({_quantity_text(writer, _kind, _fuel)})"


@rule("quantityText", 5, leaf=True)
def _quantity_text(writer: Writer, _kind: Kind, _fuel: int) -> str:
    pool = values.ODD_QUANTITIES if writer.random.random() < 0.1 else values.QUANTITIES
    return quoted(writer.random, writer.random.choice(pool))
