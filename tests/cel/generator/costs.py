"""Selectors that cost about as much as an evaluation may: any expression, as often as it takes."""

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeAlias

from cel.generator import values
from cel.generator.kinds import BOOL, Kind, parse
from cel.generator.quoting import plain
from cel.generator.text import Part, Piece
from cel.generator.writing import Writer

Price: TypeAlias = Callable[[str], int]
"""What the evaluation of an expression costs, as far as it gets."""

_LIMIT: Final = 1_000_000
_FEW, _MORE, _MOST = 2, 6, 300
_TAIL, _TAIL_ITSELF, _TAIL_ROUND = "lists.range({}).all(tail, true)", 12, 4
_LONGEST_TAIL = 8_000
_LOOPS = (
    ("", ".all(", ", ", " || true)"),
    ("!", ".exists(", ", ", " && false)"),
    ("", ".map(", ", ", ").size() > 0"),
    ("", ".filter(", ", ", ").size() >= 0"),
    ("", ".transformList(index, ", ", ", ").size() > 0"),
    ("", ".transformMap(index, ", ", ", ").size() > 0"),
    ("!", ".exists_one(", ", ", ")"),
)


def costly(random: Random, driver: str, price: Price) -> Piece:
    """Costs about the limit, if it can: half of the time by some units less or more, half of the time by far."""
    writer = Writer(random, driver=driver)
    # Long loops take cel-go time that grows with the square of their length, so there are two, one in the other.
    outer, inner = (Piece(Kind("index"), [str(_FEW)]) for _ in range(2))
    tree = Piece(BOOL, _with_large_values(writer, outer, inner))
    exactly = random.random() < 0.5
    wanted = _LIMIT + (random.randint(-20, 20) if exactly else random.randint(-800_000, 400_000))
    few = price(str(tree))
    inner.parts[0] = str(_MORE)
    of_one_round = (price(str(tree)) - few) / (_FEW * (_MORE - _FEW))
    if of_one_round <= 0:
        return tree
    rounds = (0.98 if exactly else 1) * (wanted - few) / of_one_round
    inner.parts[0] = str(min(_MOST, max(_FEW, int(math.sqrt(rounds)))))
    outer.parts[0] = str(min(_MOST, max(_FEW, int(rounds / float(str(inner))))))
    if not exactly:
        return tree
    tail = (wanted - price(str(tree)) - _TAIL_ITSELF) // _TAIL_ROUND
    return Piece(BOOL, ["((", tree, ") && ", _TAIL.format(max(0, min(tail, _LONGEST_TAIL))), ")"])


def _with_large_values(writer: Writer, *rounds: Piece) -> list[Part]:
    """Binds some, so that what is written in the loops may use them."""
    parts: list[Part] = []
    bound = 0
    for kind, make in _LARGE.items():
        if writer.random.random() < 0.4:
            name = f"large{bound}"
            writer.scope[name] = parse(kind)
            parts.append(f"cel.bind({name}, {make(writer.random)}, ")
            bound += 1
    return [*parts, *_loops(writer, rounds), ")" * bound]


def _loops(writer: Writer, rounds: Sequence[Piece]) -> list[Part]:
    if not rounds:
        return [writer.write(BOOL, writer.random.randint(1, 8))]
    before, macro, comma, after = writer.random.choice(_LOOPS)
    variable = writer.declare(Kind("int"))
    body = Piece(BOOL, _loops(writer, rounds[1:]))
    return [f"{before}lists.range(", rounds[0], f"){macro}{variable}{comma}(", body, f"){after}"]


def _text(random: Random) -> str:
    return "".join(random.choices(values.WORDS, k=random.randint(5, 100)))


_LARGE: Final[dict[str, Callable[[Random], str]]] = {
    "string": lambda random: plain(_text(random)),
    "list(string)": lambda random: f"{plain(_text(random))}.split({plain(random.choice('a b1-'))})",
    "list(int)": lambda random: f"lists.range({random.randint(10, 300)})",
    "map(int, int)": lambda random: f"lists.range({random.randint(10, 100)}).transformMap(i, v, v * 2)",
    "list(double)": lambda random: f"lists.range({random.randint(10, 100)}).map(i, double(i) / 3.0)",
}
