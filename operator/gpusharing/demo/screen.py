"""The screen: the story, and beside it or below it the picture that `gpusharing top` draws."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from gpusharing.cli.output import Screen, wrapped_lines
from gpusharing.cli.top.columns import clipped, joined, padded
from gpusharing.cli.top.screen import drawn
from gpusharing.demo.narrator import Step
from gpusharing.findings.printable import printable
from gpusharing.occupancy.fleet import Fleet
from gpusharing.occupancy.groups import GPU

SIDE_BY_SIDE: Final = 150
"""Columns from which the picture stands beside the story."""
_STORY: Final = 64
_BETWEEN: Final = " │ "
_LEAST: Final = 8
"""Lines of the story, however long the picture is."""
_TITLE: Final = "GPU sharing on simulated GPUs. The operator and the agents are the real ones."


def lines(steps: Sequence[Step], fleet: Fleet | None, *, width: int, height: int, state: str = "") -> list[Text]:
    """As many as `height`. `state`: what the demo waits for, such as a key."""
    head = [_line(_TITLE, width, "bold"), Text()]
    foot = [Text(), _line(state, width, "dim")]
    room = height - len(head) - len(foot)
    if width >= SIDE_BY_SIDE:
        body = list(_beside(_last(steps, _STORY, room), _picture(fleet, width - _STORY - len(_BETWEEN)), room))
    else:
        picture = _picture(fleet, width)[: max(room - _LEAST - 1, 0)]
        told = _last(steps, width, room - len(picture) - 1)
        body = [*told, *(Text() for _ in range(room - len(told) - len(picture))), *picture]
    return [*head, *body, *foot]


def story(steps: Sequence[Step], width: int) -> list[Text]:
    found: list[Text] = []
    for step in steps:
        mark = ("✓ ", "green") if step.is_done else ("▶ ", "bold yellow")
        found += _wrapped(step.title, "bold", width, mark, ("  ", ""))
        for line in step.lines:
            if line.is_quoted:
                found += _wrapped(line.text, "cyan", width, ("  │ ", "dim"), ("  │ ", "dim"))
            else:
                found += _wrapped(line.text, "", width, ("  ", ""), ("  ", ""))
    return found


def _picture(fleet: Fleet | None, width: int) -> Sequence[Text]:
    found = drawn(fleet, GPU, Screen(width, has_colours=True)) if fleet else []
    for line in found:
        line.truncate(width)
    return found


def _last(steps: Sequence[Step], width: int, height: int) -> list[Text]:
    """The last steps that fit as a whole; of one that is too long its end."""
    found: list[Text] = []
    for step in reversed(steps):
        told = story([step], width)
        if found and len(found) + len(told) > height:
            break
        found = [*told, *found]
    return found[max(len(found) - height, 0) :]


def _beside(left: Sequence[Text], right: Sequence[Text], height: int) -> Iterator[Text]:
    for index in range(height):
        line = left[index].copy() if index < len(left) else Text(no_wrap=True)
        line.append(padded("", _STORY - line.cell_len))
        line.append(_BETWEEN, "dim")
        if index < len(right):
            line.append_text(right[index])
        yield line


def _wrapped(text: str, style: str, width: int, first: tuple[str, str], others: tuple[str, str]) -> Iterator[Text]:
    """`first` and `others` stand before the first line and before the others."""
    text = printable(text)
    indent = " " * (len(text) - len(text.lstrip()))
    parts = wrapped_lines(text, width - len(first[0]), subsequent_indent=indent) or [""]
    for number, part in enumerate(parts):
        yield joined([others if number else first, (part, style)])


def _line(text: str, width: int, style: str) -> Text:
    return Text(clipped(text, width), style=style, no_wrap=True)
