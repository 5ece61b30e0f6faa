"""Expressions as nobody in their right mind writes them, made from those that people do."""

import random
import re
from collections.abc import Iterator, Sequence
from typing import Final

LONGEST: Final = 10 * 1024

_TOKENS: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[A-Za-z_][A-Za-z_0-9]*|[0-9]+|\s+|.", re.DOTALL)
_STRANGE: Final = [
    "9223372036854775808", "1e100000000", "1e-400", "0x", "1u", "-", "!", "(", ")", "[", "]", "{", "}", ".", "?.", "[?",
    "&&", "||", "==", "in", "null", "true", "\\", '"', "'", "`", "\0", "\ud800", "\U0010ffff", "é", "\n", "//", '"""',
    'quantity("1e999999999")', 'quantity("-0.000000001")', '"%.999999999f".format([1.0])', "lists.range(1000000)",
    '.replace("", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")', ".map(x, x + x)", ".all(x, true)", ".format([1])",
    'matches("(a+)+$")', 'matches("((((((a{1,100}){1,100}){1,100}))))")', 'duration("999999h")', "[[[[[[[[]]]]]]]]",
    '"a".split("")', ".flatten(100)", ".sort()", '.join("")', "device", "__class__", "__import__('os')", "exec", "v0",
]  # fmt: skip


def mutations(expressions: Sequence[str], *, seed: int, count: int) -> Iterator[str]:
    chance = random.Random(seed)  # noqa: S311 (the same ones again from the same seed)
    for _ in range(count):
        tokens = _TOKENS.findall(chance.choice(expressions))
        for _ in range(chance.choice([1, 1, 2, 3, 8])):
            tokens = _mutated(tokens, chance)
        yield "".join(tokens)[:LONGEST]


def _mutated(tokens: list[str], chance: random.Random) -> list[str]:
    begin = chance.randrange(len(tokens) + 1)
    end = min(len(tokens), begin + chance.choice([0, 1, 1, 2, 5, 20]))
    before, middle, after = tokens[:begin], tokens[begin:end], tokens[end:]
    match chance.randrange(7):
        case 0:
            return before + after
        case 1:
            return before + middle * chance.choice([2, 3, 50, 1000]) + after
        case 2:
            return [*before, chance.choice(_STRANGE), *after]
        case 3:
            return [*before, chance.choice(_STRANGE), *middle, *after]
        case 4:
            return before + list(reversed(middle)) + after
        case 5:
            depth = chance.choice([1, 10, 100, 2000])
            opening, closing = chance.choice([("(", ")"), ("[", "]"), ("!", ""), ("-", ""), ("{1: ", "}"), ("", ".x")])
            return [*before, *[opening] * depth, *middle, *[closing] * depth, *after]
        case _:
            return before + after + middle
