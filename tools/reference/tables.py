"""Markdown of generated pages."""

from collections.abc import Iterable, Sequence


def heading(level: int, text: str) -> str:
    return f"{'#' * level} {text}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(text: str) -> str:
    """A sentence, as it may stand in a cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
