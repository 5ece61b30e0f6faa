"""What commands print: lines with marks and colours on a terminal, tables, JSON, YAML.

Not with rich: to import it takes as long as all of a short command, and its tables are a dozen lines of ours.
"""

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TextIO

from gpusharing.findings.finding import Finding, Severity
from gpusharing.findings.printable import printable

_WIDTH: Final = 80
_NARROWEST: Final = 40
_NO_BREAK: Final = "\N{NO-BREAK SPACE}"
_WITHIN: Final = re.compile(r"(?<=\w) (?=x\d)|(?<=\band) (?=[\d,]+ more\b)|(?<=\d) (?=more\b)")
"""What is read as one word: `mps x8`, `and 5 more`."""


class Style(Enum):
    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"


MARKS: Final = {
    Severity.ERROR: ("✗", Style.RED),
    Severity.WARNING: ("!", Style.YELLOW),
    Severity.INFO: ("·", Style.DIM),
}


@dataclass(frozen=True, slots=True)
class Screen:
    width: int = _WIDTH
    has_colours: bool = False

    @classmethod
    def of(cls, stream: TextIO | None = None) -> "Screen":
        """As the terminal is; without one 80 columns, and no colours."""
        stream = stream or sys.stdout
        is_terminal = stream.isatty()
        width = shutil.get_terminal_size((_WIDTH, 24)).columns if is_terminal else _columns()
        has_colours = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(max(width, _NARROWEST), has_colours)

    def styled(self, text: str, style: Style) -> str:
        return f"\x1b[{style.value}m{text}\x1b[0m" if self.has_colours else text

    def wrapped(self, text: str, *, indent: int = 0, hanging: int = 0) -> str:
        """In lines no longer than the screen is wide. `hanging`: of all lines but the first, beside `indent`."""
        return self._wrapped(printable(text), indent=indent, hanging=hanging)

    def _wrapped(self, text: str, *, indent: int = 0, hanging: int = 0) -> str:
        lines = wrapped_lines(
            text,
            self.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hanging),
            break_long_words=False,
        )
        return "\n".join(lines)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
        """As kubectl's: columns three spaces apart. The last column is wrapped if it does not fit."""
        body = [tuple(map(printable, row)) for row in rows]
        widths = [max(len(row[column]) for row in (header, *body)) for column in range(len(header))]
        before = sum(width + 3 for width in widths[:-1])
        last = max(self.width - before, 20)
        lines: list[str] = []
        for row in (tuple(header), *body):
            start = "".join(f"{cell:<{width + 3}}" for cell, width in zip(row, widths[:-1], strict=False))
            parts = textwrap.wrap(row[-1], last, break_on_hyphens=False, break_long_words=False) or [""]
            lines += [f"{start if not number else ' ' * before}{part}".rstrip() for number, part in enumerate(parts)]
        return "\n".join(lines)

    def fits(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
        """Whether a table of them leaves room for its last column."""
        widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header) - 1)]
        return sum(widths) + 3 * len(widths) + _NARROWEST // 2 <= self.width

    def lists(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
        """A table that is too wide: each row is a block of lines."""
        width = max(map(len, header)) + 2
        return "\n\n".join(
            "\n".join(
                self._wrapped(f"{title:<{width}}{printable(cell)}".replace("  ", _NO_BREAK * 2), hanging=width)
                for title, cell in zip(header, row, strict=True)
                if cell not in {"", "-"}
            )
            for row in rows
        )

    def finding(self, finding: Finding, *, about: str = "", place: str = "") -> str:
        """Mark, code and title; then the sentence and the remedy, indented. `about` stands before the sentence, `place`
        before the code."""
        mark, style = MARKS[finding.entry.severity]
        where = f"{printable(place)} " if place else ""
        head = f"{self.styled(mark, style)} {where}{self.styled(finding.code, Style.BOLD)} {finding.entry.title}"
        lines = [head, self.wrapped(about + finding.sentence, indent=2)]
        if finding.remedy:
            lines.append(self.wrapped(f"→ {finding.remedy}", indent=2, hanging=2))
        return "\n".join(lines)


def wrapped_lines(text: str, width: int, **options: Any) -> list[str]:
    """`options`: those of textwrap. No line ends at a no-break space, and all of these become spaces."""
    kept = _WITHIN.sub(_NO_BREAK, text)
    return [line.replace(_NO_BREAK, " ") for line in textwrap.wrap(kept, width, break_on_hyphens=False, **options)]


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() else _WIDTH


def as_json(value: Any) -> str:
    """In ASCII: what others wrote may neither move the cursor nor turn text around. Programs read the same."""
    return json.dumps(value, indent=2)


def as_yaml(value: Any) -> str:
    """In ASCII, as JSON."""
    import yaml  # noqa: PLC0415 (a fifth of the start of a command that does not need it)

    text: str = yaml.safe_dump(value, sort_keys=False, width=120)
    return text.rstrip("\n")
