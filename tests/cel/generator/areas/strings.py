"""Strings, bytes, and `format`."""

from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.quoting import quoted
from cel.generator.text import Part, Piece
from cel.generator.writing import Writer

rules("""
2 bool: $string.startsWith($string)
1.5 bool: $string.endsWith($string)
2 bool: $string.contains($string)
2 string: ($string + $string)
0.3 ~string: ($dyn + $string)
1 bytes: ($bytes + $bytes)
0.7 string: $string.charAt($index)
1 int: $string.indexOf($string)
0.7 int: $string.indexOf($string, $index)
0.7 int: $string.lastIndexOf($string)
0.7 int: $string.lastIndexOf($string, $index)
1 string: $list(string).join()
1 string: $list(string).join($string)
0.8 string: $string.lowerAscii()
0.8 string: $string.upperAscii()
1 string: $string.replace($string, $string)
0.7 string: $string.replace($string, $string, $index)
1.5 list(string): $string.split($string)
0.7 list(string): $string.split($string, $index)
1 string: $string.substring($index)
0.7 string: $string.substring($index, $index)
0.8 string: $string.trim()
0.5 string: strings.quote($string)
0.5 string: string($string)
1 string: string($int)
0.7 string: string($uint)
1 string: string($double)
0.5 string: string($bool)
0.7 string: string($bytes)
0.4 string: string($duration)
0.4 string: string($timestamp)
0.4 string: string($ip)
0.4 string: string($cidr)
0.2 string: string($dyn)
0.3 bytes: bytes($bytes)
1 bytes: bytes($string)
0.2 bytes: bytes($dyn)
0.3 string: $dyn.trim()
0.3 bool: $dyn.startsWith($string)
0.5 index: $int
3 index: $string.size()
0.5 string: $string.split($string)[$index]
""")

_CLAUSES = (
    "%s", "%s", "%s", "%d", "%d", "%f", "%.3f", "%.0f", "%e", "%.2e", "%x", "%X", "%b", "%o", "%%", "%.10f", "%.0e",
    " ", "é", "-",
)  # fmt: skip
_ODD_CLAUSES = ("%", "%q", "%5d", "%.f", "%.s", "%.1000f", "%-d", "%c", "%D", "%.2d", "%.d", "%S")
_FITTING = {
    "d": ("int", "uint", "int", "double", "dyn"),
    "f": ("double", "double", "dyn"),
    "e": ("double", "double", "dyn"),
    "x": ("int", "uint", "string", "bytes", "dyn"),
    "X": ("int", "uint", "string", "bytes", "dyn"),
    "b": ("int", "uint", "bool", "dyn"),
    "o": ("int", "uint", "dyn"),
}


@rule("index", 8, leaf=True)
def _index(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return str(writer.random.choice((0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 7, 12, -1, -2, 100, 2**31, 2**63 - 1)))


@rule("string", 2)
def _format(writer: Writer, kind: Kind, fuel: int) -> Piece:
    random = writer.random
    clauses = random.choices(_CLAUSES, k=random.randint(1, 4))
    if random.random() < 0.03:
        clauses.append(random.choice(_ODD_CLAUSES))
    kinds = [_kind_for(writer, clause) for clause in clauses if clause.startswith("%") and clause != "%%"]
    if random.random() < 0.03:
        kinds = kinds[1:] if random.random() < 0.5 else [*kinds, Kind("int")]
    parts: list[Part] = [quoted(random, "".join(clauses)), ".format(["]
    for position, (each, share) in enumerate(zip(kinds, writer.shares(fuel, len(kinds)), strict=True)):
        parts += [", " if position else "", writer.write(each, share)]
    return Piece(kind, [*parts, "])"])


def _kind_for(writer: Writer, clause: str) -> Kind:
    fitting = _FITTING.get(clause[-1])
    if fitting is None or writer.random.random() < 0.03:
        return writer.any_kind()
    return Kind(writer.random.choice(fitting))
