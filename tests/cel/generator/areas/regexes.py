"""Random patterns of RE2, and what takes them."""

from random import Random

from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.quoting import quoted
from cel.generator.writing import Writer

rules("""
3 bool: $string.matches($pattern)
0.7 bool: matches($string, $pattern)
0.2 bool: $dyn.matches($pattern)
0.7 string: $string.find($pattern)
0.7 list(string): $string.findAll($pattern)
0.5 list(string): $string.findAll($pattern, $index)
0.5 int: $string.findAll($pattern).size()
0.5 bool: ($string in $string.findAll($pattern))
0.5 bool: ($string.find($pattern) == $string)
0.3 bool: ($string in $string.findAll($pattern, $index))
0.1 pattern: $string
""")

_ATOMS = (
    "a", "b", "A", "1", "0", "g", "b", "GPU", "NVIDIA", "abc", "X", "-", ".", ".", ".*", ".+", "é", "日", "😀", " ",
    "[0-9]", "[a-z]", "[A-Z0-9]", "[^a-z]", "[-a]", "[a-]", "[]a]", "[^]a]", "[[:alpha:]]", "[[:^digit:]x]",
    "[[:word:]]", r"[\d\s]", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", "^", "$", r"\A", r"\z", r"\.",
    r"\-", r"\x41", r"\x{1F600}", r"\101", r"\pL", r"\p{Lu}", r"\PN", r"\p{Greek}", r"\p{^Greek}", r"\n", r"\t", r"\a",
    r"\f", r"\v", r"\Qa.b\E", r"[\p{L}\d_]", r"[\x{3b1}-\x{3c9}]",
    r"\x{10FFFF}", "(?i:gpu)", "(?s:.)", "[[:space:]]", r"[^\W]",
    r"\pZ", "[a-fx-z]", r"[\x00-\x{7f}]", r"\0",
)  # fmt: skip
_ODD_ATOMS = (
    "(", ")", "[", "]", "*", "+", "?", r"\C", r"\1", r"\Z", r"\G", r"\X", "(?=a)", "(?!a)", "(?<=a)", "(?<n>a)",
    "(?P<n>a)", "(?P<n>a)(?P<n>b)", "(?P<1n>a)", "(?P=n)", "(?>a)", "(?#c)", "(?x: a )", "[b-a]", "[a", r"[\Q]\E]",
    "a**", "a{,2}", "a{2,1}", "{2}", "a{2", r"\p{Nope}", r"\x{110000}", r"\xg", "[[:nope:]]", r"\u0041", r"\k<n>",
    "a++", "a{1001}", "(a{1000}){2}", r"\8", "x*{2}", "|", "||", "()", "(|a)", r"\Q", r"\E", "[a-\\d]", r"\p{L", "(?",
    "(?i", "(?-", "(?z)", r"\c", r"\N", "\\", "(?U:a+)",
)  # fmt: skip
_REPEATS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{0,3}", "{1,}", "{2,5}?", "{0}", "{,3}", "{1000}")
_FLAGS = ("(?i)", "(?s)", "(?m)", "(?is)", "(?U)", "(?-i)", "(?i-s)")


@rule("pattern", 5, leaf=True)
def _pattern(writer: Writer, _kind: Kind, _fuel: int) -> str:
    random = writer.random
    text = pattern(random, random.randint(0, 6))
    if random.random() < 0.04:
        text += random.choice(_ODD_ATOMS)
    return quoted(random, text)


def pattern(random: Random, size: int) -> str:
    text = random.choice(_FLAGS) if random.random() < 0.05 else ""
    while size > 0:
        used = random.randint(1, size)
        text += _repeated(random, _group(random, used - 1) if used > 1 else random.choice(_ATOMS))
        size -= used
    return text


def _group(random: Random, size: int) -> str:
    inside = pattern(random, size)
    match random.randrange(5):
        case 0:
            return f"({inside})"
        case 1:
            return f"(?:{inside})"
        case 2:
            return f"(?:{inside}|{pattern(random, size)})"
        case 3:
            return f"(?P<n{random.randrange(1000)}>{inside})"
        case _:
            return f"{inside}|{pattern(random, size)}"


def _repeated(random: Random, text: str) -> str:
    return text + random.choice(_REPEATS) if random.random() < 0.25 else text
