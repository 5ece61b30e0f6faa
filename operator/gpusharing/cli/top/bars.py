"""A GPU as a bar: how much of it is promised, and to how many."""

from collections.abc import Iterator
from typing import Final

from gpusharing.occupancy.fleet import GpuUse

WIDTH: Final = 8
_HOLDERS: Final = "█▓"
"""In turns, so that neighbours can be told apart."""
_HIDDEN: Final = "▒"
_FREE: Final = "░"


def bar(gpu: GpuUse) -> str:
    """Each holder has at least one cell, as long as there are some."""
    if gpu.ratio is None:
        return "?" * WIDTH
    cells, promised = "", 0.0
    for number, (ratio, mark) in enumerate(_parts(gpu)):
        promised += ratio
        end = max(round(promised * WIDTH), len(cells) + 1)
        cells += (mark or _HOLDERS[number % len(_HOLDERS)]) * (end - len(cells))
    return f"{cells[:WIDTH]:{_FREE}<{WIDTH}}"


def level(ratio: float) -> str:
    """Of one part."""
    return f"{_HOLDERS[0] * round(ratio * WIDTH):{_FREE}<{WIDTH}}"


def _parts(gpu: GpuUse) -> Iterator[tuple[float, str]]:
    named = [one.ratio or 0.0 for one in gpu.holders]
    yield from ((ratio, "") for ratio in named)
    if gpu.hidden:
        rest = max((gpu.ratio or 0.0) - sum(named), 0.0)
        yield from ((rest / gpu.hidden, _HIDDEN) for _ in range(gpu.hidden))
