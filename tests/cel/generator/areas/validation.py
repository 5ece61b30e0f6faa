"""Kubernetes' named formats."""

from cel.generator import values
from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.quoting import plain, quoted
from cel.generator.writing import Writer

rules("""
2 optional(list(string)): $format.validate($formatted)
0.5 bool: !$format.validate($formatted).hasValue()
0.3 optional(format): format.named($string)
0.2 format: format.named($string).value()
0.1 formatted: $string
""")


@rule("format", 3, leaf=True)
def _format(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return f"format.{writer.random.choice(values.FORMATS)}()"


@rule("optional(format)", 1, leaf=True)
def _named(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return f"format.named({plain(writer.random.choice((*values.FORMATS, 'nope')))})"


@rule("formatted", 5, leaf=True)
def _formatted(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return quoted(writer.random, writer.random.choice(values.FORMATTED))
