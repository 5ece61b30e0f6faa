"""Lines in columns. Not rich's tables: to lay out eight thousand rows takes them five seconds."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from gpusharing.findings.printable import printable

_GAP: Final = 2
_LEAST: Final = 12
"""Of the last column, which gets what the others leave."""


class Cell(NamedTuple):
    text: str
    style: str = ""


class Column(NamedTuple):
    title: str
    is_number: bool = False
    most: int = 24


Last = Callable[[int], Sequence[Cell]]
"""The last cell of a row in so many columns."""


class Row(NamedTuple):
    cells: Sequence[Cell]
    last: Last


def lines(columns: Sequence[Column], last: str, rows: Sequence[Row], width: int) -> Iterator[Text]:
    """The header, and then one line for each row. `last`: the title of the last column."""
    widths = [
        min(max(len(column.title), *(cell_len(row.cells[index].text) for row in rows)), column.most)
        for index, column in enumerate(columns)
    ]
    rest = max(width - sum(widths) - _GAP * len(widths), _LEAST)
    titles = Row([Cell(column.title, "bold") for column in columns], lambda _: [Cell(last, "bold")])
    for row in (titles, *rows):
        parts: list[tuple[str, str]] = []
        for cell, column, size in zip(row.cells, columns, widths, strict=True):
            parts += [(padded(cell.text, size, to_right=column.is_number), cell.style), (" " * _GAP, "")]
        yield joined([*parts, *row.last(rest)])


def joined(parts: Sequence[tuple[str, str]]) -> Text:
    text = Text.assemble(*((printable(text), style) for text, style in parts), no_wrap=True)
    text.rstrip()
    return text


def padded(text: str, size: int, *, to_right: bool = False) -> str:
    if cell_len(text) > size:
        return clipped(text, size)
    return " " * (size - cell_len(text)) + text if to_right else set_cell_size(text, size)


def clipped(text: str, size: int) -> str:
    return text if cell_len(text) <= size else f"{set_cell_size(text, size - 1)}…"
