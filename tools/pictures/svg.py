"""Boxes, arrows and words of a picture, readable on light and on dark pages."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Final

# The picture has a ground of its own: a site can be dark while the system of its reader is light.
_STYLE: Final = """\
  .ground { fill: #ffffff; stroke: #d0d7de; }
  .area { fill: #f3f5f8; stroke: #c3cad3; }
  .object { fill: #dbe9ff; stroke: #3b6fc4; }
  .program { fill: #ffe9c9; stroke: #b06a00; }
  .taken { fill: #2f6fd0; stroke: #1d4f9c; }
  .free { fill: #dbe9ff; stroke: #3b6fc4; }
  .withdrawn { fill: none; stroke: #8a939e; stroke-dasharray: 4 3; }
  text { fill: #1f2328; font: 14px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
  .title { font-weight: 600; }
  .small { font-size: 12.5px; }
  .faint { fill: #59636e; }
  .on-taken { fill: #ffffff; }
  .claim { font-size: 11.5px; }
  .line { fill: none; stroke: #59636e; stroke-width: 1.6; marker-end: url(#tip); }
  #tip path { fill: #59636e; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #14171c; stroke: #3d444d; }
    .area { fill: #1d2229; stroke: #4a525c; }
    .object, .free { fill: #17325c; stroke: #6ea3f0; }
    .program { fill: #4a3208; stroke: #e0a04a; }
    .taken { fill: #6ea3f0; stroke: #a9c9fa; }
    .withdrawn { stroke: #767f8a; }
    text { fill: #e6edf3; }
    .faint { fill: #a3adb8; }
    .on-taken { fill: #0b1a30; }
    .line { stroke: #a3adb8; }
    #tip path { fill: #a3adb8; }
  }
"""
_TIP: Final = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'


@dataclass(frozen=True, kw_only=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    kind: str
    words: tuple[str, ...] = ()
    """In the middle, one below the other."""
    look: str = "title"

    def __str__(self) -> str:
        size = f'x="{self.x:g}" y="{self.y:g}" width="{self.width:g}" height="{self.height:g}"'
        parts = [f'<rect class="{self.kind}" {size} rx="6"/>']
        top = self.y + self.height / 2 + 5 - 9 * (len(self.words) - 1)
        for number, line in enumerate(self.words):
            look = self.look if number == 0 else "small"
            parts.append(str(Words(self.x + self.width / 2, top + 18 * number, line, look, "middle")))
        return "".join(parts)


@dataclass(frozen=True)
class Words:
    x: float
    y: float
    text: str
    look: str = "small"
    anchor: str = "start"

    def __str__(self) -> str:
        place = f'x="{self.x:g}" y="{self.y:g}" text-anchor="{self.anchor}"'
        return f'<text class="{self.look}" {place}>{escape(self.text)}</text>'


@dataclass(frozen=True)
class Arrow:
    points: tuple[tuple[float, float], ...]

    def __str__(self) -> str:
        return f'<polyline class="line" points="{" ".join(f"{x:g},{y:g}" for x, y in self.points)}"/>'


@dataclass(frozen=True, kw_only=True)
class Picture:
    title: str
    description: str
    width: int
    height: int
    parts: Iterable[Box | Words | Arrow] = field(default_factory=list)

    def __str__(self) -> str:
        ground = Box(x=1, y=1, width=self.width - 2, height=self.height - 2, kind="ground")
        lines = [
            "<!-- Generated from tools/pictures by `make generate`; do not edit. -->",
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title description" '
                f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}">'
            ),
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="description">{escape(self.description)}</desc>',
            f"<style>\n{_STYLE}</style>",
            f'<defs>{_TIP}<path d="M0 0 8 4 0 8z"/></marker></defs>',
            *(str(part) for part in (ground, *self.parts)),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"
