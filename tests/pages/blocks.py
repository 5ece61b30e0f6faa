"""Fenced blocks of all pages."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

ROOT: Final = Path(__file__).parents[2]
_MARKDOWN: Final = MarkdownIt("commonmark")
_MARKER: Final = re.compile(r"<!-- of: (\S+) -->\s*")
_WITH_PAGES: Final = ("charts", "contrib", "docs", "manifests", "operator", "tests", "tools")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    of: str = ""
    """Where a part of an object stands in it: SharingPolicy.spec.offers. A comment before the block says it."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    found = [*ROOT.glob("*.md"), *(path for directory in _WITH_PAGES for path in (ROOT / directory).rglob("*.md"))]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def blocks_of(page: str, text: str) -> list[Block]:
    tokens = _MARKDOWN.parse(text)
    found = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "fence" and token.map:
            marker = _MARKER.fullmatch(before.content) if before is not None and before.type == "html_block" else None
            found.append(Block(page, token.map[0] + 1, token.info, token.content, marker[1] if marker else ""))
    return found


BLOCKS: Final = [block for page in pages() for block in blocks_of(page, (ROOT / page).read_text())]
