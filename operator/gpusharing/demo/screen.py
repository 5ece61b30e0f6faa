"""The screen: the story, and beside it or below it the picture that `gpusharing top` draws."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from gpusharing.cli.output import Screen
from gpusharing.cli.top.columns import clipped
from gpusharing.cli.top.screen import drawn
from gpusharing.demo.telling import Step
from gpusharing.findings.printable import printable
from gpusharing.occupancy.fleet import Fleet
from gpusharing.occupancy.groups import GPU

SIDE_BY_SIDE: Final = 150
"""Columns from which the picture stands beside the story."""
_STORY: Final = 64
_BETWEEN: Final = " │ "
_TITLE: Final = "GPU sharing, on simulated GPUs: operator and agents are real"
_DONE, _NOW = "✓", "▶"


def lines(steps: Sequence[Step], fleet: Fleet | None, *, width: int, height: int, state: str) -> list[Text]:
    """As many as `height`. `state`: what the demo waits for, such as a key."""
    head = [Text(clipped(f"{_TITLE}", width), style="bold", no_wrap=True), Text()]
    foot = [Text(clipped(state, width), style="dim", no_wrap=True)] if state else []
    room = height - len(head) - len(foot)
    if width >= SIDE_BY_SIDE:
        rest = width - _STORY - len(_BETWEEN)
        told, picture = story(steps, _STORY), _picture(fleet, rest)
        body = list(_beside(told[-room:], picture[:room], room))
    else:
        picture = _picture(fleet, width)[: max(room - 6, 0)]
        told = story(steps, width)[-(room - len(picture) - 1) :]
        body = [*told, *(Text() for _ in range(room - len(told) - len(picture))), *picture]
    return [*head, *body, *foot]


def story(steps: Sequence[Step], width: int) -> list[Text]:
    found: list[Text] = []
    for step in steps:
        mark, style = (_DONE, "green") if step.is_done else (_NOW, "bold yellow")
        found += _wrapped(Text.assemble((f"{mark} ", style), (printable(step.title), "bold")), width, 2)
        for line in step.lines:
            if line.is_quoted:
                text = Text.assemble(("  │ ", "dim"), (printable(line.text), "cyan"), no_wrap=True)
                found += _wrapped(text, width, 4)
            else:
                found += _wrapped(Text(f"  {printable(line.text)}"), width, 2)
    return found


def _picture(fleet: Fleet | None, width: int) -> list[Text]:
    if fleet is None:
        return []
    return drawn(fleet, GPU, Screen(width, has_colours=True))


def _beside(left: Sequence[Text], right: Sequence[Text], height: int) -> Iterator[Text]:
    for index in range(height):
        line = left[index].copy() if index < len(left) else Text()
        line.append(" " * (_STORY - cell_len(line.plain)))
        line.append(_BETWEEN, "dim")
        if index < len(right):
            line.append_text(right[index])
        line.no_wrap = True
        yield line


def _wrapped(text: Text, width: int, hanging: int) -> Iterator[Text]:
    """Lines after the first are indented."""
    first = True
    for line in _WRAPPING.wrap_lines(text, width, hanging):
        yield line
