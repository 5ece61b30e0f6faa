"""One case: a selector and the devices that it is matched against."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Final

from cel.generator import areas, device_names, mistakes
from cel.generator.costs import costly
from cel.generator.devices import device
from cel.generator.kinds import BOOL, DYN, Kind, parse
from cel.generator.quoting import plain
from cel.generator.text import Piece
from cel.generator.writing import Writer

assert areas  # imported for the rules that it adds

DEVICES = 2
_POOL = 150
_TOLD = tuple(
    parse(kind)
    for kind in (
        "string", "string", "string", "int", "int", "uint", "double", "double", "bytes", "duration", "timestamp",
        "type", "list(string)", "list(string)", "list(int)", "list(double)", "list(bool)", "map(string, int)",
        "map(int, string)", "list(list(int))", "timePart", "urlPart", "dyn",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    tree: Piece
    devices: list[dict[str, Any]]


def case(seed: int, number: int) -> Case:
    """The same for the same seed and number, on every machine."""
    random = Random(f"{seed}/{number}")  # noqa: S311 (no secret)
    driver = random.choice(device_names.DRIVERS)
    return Case(selector(random, driver), [_device(seed, driver, random.randrange(_POOL)) for _ in range(DEVICES)])


_LONGEST_TOLD: Final = 4_096


def telling_case(seed: int, number: int) -> Case:
    """Not a selector, but a string that tells a value: see `is_told`."""
    random = Random(f"{seed}/{number}")  # noqa: S311
    driver = random.choice(device_names.DRIVERS)
    value = Writer(random, driver=driver).write(random.choice(_TOLD), int(random.expovariate(1 / 4)) + 2)
    on = _device(seed, driver, random.randrange(_POOL))
    return Case(Piece(Kind("string"), ['"%s".format([', value, "])"]), [on])


def is_told(telling: Case, value: str) -> Case:
    """A selector that only matches where every digit is right: most others compare with what is random, too. What does
    not fit into a selector is not told.
    """
    value = value if len(value) < _LONGEST_TOLD else ""
    return Case(Piece(BOOL, ["(", telling.tree, " == ", Piece(Kind("string"), [plain(value)]), ")"]), telling.devices)


def costly_case(seed: int, number: int, price: Callable[[str, dict[str, Any]], int]) -> Case:
    """Costs about what an evaluation may cost: `price` says what one on a device does."""
    random = Random(f"{seed}/{number}")  # noqa: S311 (no secret)
    driver = random.choice(device_names.DRIVERS)
    on = _device(seed, driver, random.randrange(_POOL))
    return Case(costly(random, driver, lambda expression: price(expression, on)), [on])


@lru_cache(_POOL * len(device_names.DRIVERS))
def _device(seed: int, driver: str, number: int) -> dict[str, Any]:
    return device(Random(f"{seed}/{driver}/{number}"), driver)  # noqa: S311


def selector(random: Random, driver: str) -> Piece:
    roll = random.random()
    writer = Writer(random, driver=driver, sloppiness=0.03 if roll < 0.12 else 0)
    kind = BOOL if random.random() < 0.98 else random.choice((DYN, writer.any_kind()))
    tree = writer.write(kind, int(random.expovariate(1 / 4)) + 1)
    return mistakes.spoil(writer, tree) if 0.12 < roll < 0.2 else tree
