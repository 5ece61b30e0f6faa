"""Reads a site as a crawler does: each page with its anchors, its links and what it loads."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
_VERBATIM = {"pre", "code", "script", "style"}


@dataclass
class Seen(HTMLParser):
    """What a page says."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    """Texts that are no code."""
    _verbatim: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        if tag in _LOADED and given.get(_LOADED[tag]):
            self.loads.append(given[_LOADED[tag]] or "")
        self._verbatim += tag in _VERBATIM

    def handle_endtag(self, tag: str) -> None:
        self._verbatim -= tag in _VERBATIM

    def handle_data(self, data: str) -> None:
        if not self._verbatim:
            self.prose.append(data)


@dataclass
class Site:
    directory: Path

    @cached_property
    def pages(self) -> dict[Path, Seen]:
        return {path: _seen(path) for path in sorted(self.directory.rglob("*.html"))}

    def faults(self) -> list[str]:
        return [
            f"{page.relative_to(self.directory)}: {fault}"
            for page, seen in self.pages.items()
            for fault in self._faults(page, seen)
        ]

    def _faults(self, page: Path, seen: Seen) -> list[str]:
        found = [f"{link}: {fault}" for link in seen.links if (fault := self._fault(page, link))]
        found += [f"{load} is asked of another host" for load in seen.loads if urlsplit(load).netloc]
        found += [f"{load} is missing" for load in seen.loads if not self._target(page, load).exists()]
        return found + [f"a link is shown as text: {text}" for text in seen.prose if re.search(r"\]\(", text)]

    def _fault(self, page: Path, link: str) -> str:
        parts = urlsplit(link)
        if parts.scheme in {"http", "https", "mailto"}:
            return ""
        if parts.scheme or parts.netloc:
            return "nobody can follow it"
        target = self._target(page, link)
        if not target.is_file():
            return "leads nowhere"
        anchors = self.pages[target].anchors if target in self.pages else set()
        return "no such anchor" if parts.fragment and unquote(parts.fragment) not in anchors else ""

    def _target(self, page: Path, link: str) -> Path:
        path = unquote(urlsplit(link).path)
        return (page.parent / path).resolve() if path else page


def _seen(path: Path) -> Seen:
    seen = Seen()
    seen.feed(path.read_text())
    return seen
