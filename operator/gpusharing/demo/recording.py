"""The story as a picture that moves: an SVG without scripts, for pages that show no other kind.

Each picture is shown for its time, by CSS. What most pictures have in common stands once in the file: their lines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

_CELL: Final = 8.4
_LINE: Final = 18
_MARGIN: Final = 16
_BACKGROUND: Final = "#10151c"
_COLOURS: Final = {
    "red": "#ff7b72",
    "green": "#7ee787",
    "yellow": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
}
_FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace"


@dataclass
class Recording:
    width: int
    height: int
    _pictures: list[tuple[Sequence[int], float]] = field(default_factory=list)
    """The numbers of their lines, and seconds."""
    _lines: dict[str, int] = field(default_factory=dict)
    """As SVG."""

    def add(self, lines: Sequence[Text], seconds: float) -> None:
        numbers = [self._lines.setdefault(_line(line), len(self._lines)) for line in lines]
        if self._pictures and self._pictures[-1][0] == numbers:
            self._pictures[-1] = (numbers, max(self._pictures[-1][1], seconds))
        else:
            self._pictures.append((numbers, seconds))

    def svg(self) -> str:
        width, height = self.width * _CELL + 2 * _MARGIN, self.height * _LINE + 2 * _MARGIN
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">',
                "<title>gpusharing demo</title>",
                f"<style>text{{font:14px {_FONT};fill:#d5dbe3;white-space:pre}}",
                ".b{font-weight:bold}.d{fill:#8b949e}",
                *(f".{name}{{fill:{value}}}" for name, value in _COLOURS.items()),
                *self._times(),
                "</style>",
                f'<rect width="100%" height="100%" rx="10" fill="{_BACKGROUND}"/>',
                "<defs>",
                *(f'<text id="l{number}">{line}</text>' for line, number in self._lines.items() if line),
                "</defs>",
                *self._shown(),
                "</svg>",
                "",
            ]
        )

    def _times(self) -> Iterator[str]:
        total = sum(seconds for _, seconds in self._pictures)
        yield f".p{{visibility:hidden;animation:{total:.2f}s steps(1) infinite}}"
        # Who wants no motion, and who draws no animations, sees the last picture.
        yield f"#p{len(self._pictures) - 1}{{visibility:visible}}"
        began = 0.0
        for number, (_, seconds) in enumerate(self._pictures):
            start, end = 100 * began / total, 100 * (began + seconds) / total
            before = "0%{visibility:hidden}" if start else ""
            after = f"{end:.3f}%,100%{{visibility:hidden}}" if end < 99.999 else "100%{visibility:visible}"
            yield f"@keyframes k{number}{{{before}{start:.3f}%{{visibility:visible}}{after}}}"
            yield f"#p{number}{{animation-name:k{number}}}"
            began += seconds
        yield "@media(prefers-reduced-motion:reduce){.p{animation:none!important}}"

    def _shown(self) -> Iterator[str]:
        empty = self._lines.get("", -1)
        for number, (lines, _) in enumerate(self._pictures):
            uses = "".join(
                f'<use href="#l{line}" x="{_MARGIN}" y="{_MARGIN + 14 + row * _LINE}"/>'
                for row, line in enumerate(lines)
                if line != empty
            )
            yield f'<g class="p" id="p{number}">{uses}</g>'


def _line(text: Text) -> str:
    """Each part is as wide as its characters, whatever the font is."""
    parts: list[str] = []
    column = 0
    for segment in text.render(_PLAIN):
        written = segment.text.rstrip("\n")
        size = cell_len(written)
        if written.strip():
            classes = " ".join(_classes(segment.style or Style()))
            looks = f' class="{classes}"' if classes else ""
            place = f'x="{column * _CELL:g}" textLength="{size * _CELL:g}"'
            parts.append(f"<tspan {place}{looks}>{escape(written)}</tspan>")
        column += size
    return "".join(parts)


_PLAIN: Final = Console(width=1000, color_system="standard", markup=False, highlight=False, emoji=False)


def _classes(style: Style) -> Iterator[str]:
    if style.bold:
        yield "b"
    if style.dim:
        yield "d"
    colour: Color | None = style.color
    if colour and colour.name in _COLOURS:
        yield colour.name
