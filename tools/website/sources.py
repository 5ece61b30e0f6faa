"""The pages of the repository, as Sphinx reads them: the same Markdown, and links lead somewhere on the site.

Pages of docs/ stand at the top of the site, others below `repository/`. Links to files that are no pages become links
of the scheme `repository:`, for which `files.py` makes pages.
"""

import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from website import navigation

FILE: Final = "repository:"
_MARKDOWN: Final = MarkdownIt("commonmark").enable("table")
_DOCS: Final = "docs/"
_ELSEWHERE: Final = "repository/"


class BrokenLinkError(Exception):
    pass


def place(path: str) -> str:
    """Where a page or picture of the repository stands on the site."""
    return path.removeprefix(_DOCS) if path.startswith(_DOCS) else _ELSEWHERE + path


def write_sources(root: Path, target: Path) -> None:
    pages = navigation.pages()
    missing = sorted(_in_docs(root) - set(pages))
    if missing:
        raise BrokenLinkError(f"add to tools/website/navigation.py: {', '.join(missing)}")
    for page in pages:
        text = with_links_of_site(root, page, set(pages), lambda picture: _copy(root, target, picture))
        written = target / place(page)
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(text + _navigation_of(page))


def with_links_of_site(root: Path, page: str, pages: set[str], take_picture: Callable[[str], None]) -> str:
    text = (root / page).read_text()
    for link, is_picture in sorted(set(_links(_MARKDOWN.parse(text)))):
        path, hash_, anchor = link.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            continue
        named = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if named.startswith("..") or not (root / named).exists():
            raise BrokenLinkError(f"{page}: {link} leads nowhere")
        if (root / named / "README.md").exists():
            named = f"{named}/README.md"
        if is_picture:
            take_picture(named)
        if is_picture or named in pages:
            new = os.path.relpath(place(named), posixpath.dirname(place(page)) or ".")
        elif named.endswith(".md"):
            raise BrokenLinkError(f"{page}: add {named} to tools/website/navigation.py")
        else:
            new = FILE + named
        text = re.sub(rf"\]\({re.escape(link)}(?=[ )])", _literal(f"]({new}{hash_}{anchor}"), text)
    return text


def _literal(text: str) -> str:
    """As a replacement for `re.sub`."""
    return text.replace("\\", r"\\")


def _links(tokens: list[Token]) -> Iterator[tuple[str, bool]]:
    """Each with whether it is a picture."""
    for token in tokens:
        for name in ("href", "src"):
            if isinstance(link := token.attrGet(name), str):
                yield link, name == "src"
        yield from _links(token.children or [])


def _in_docs(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in (root / _DOCS).rglob("*.md")}


def _copy(root: Path, target: Path, picture: str) -> None:
    copied = target / place(picture)
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / picture, copied)


def _navigation_of(page: str) -> str:
    if page == navigation.START:
        return "".join(_toctree(page, section.pages, section.title) for section in navigation.NAVIGATION)
    return _toctree(page, navigation.BELOW[page]) if page in navigation.BELOW else ""


def _toctree(page: str, pages: tuple[str, ...], title: str = "") -> str:
    above = posixpath.dirname(place(page)) or "."
    entries = [_entry(one, os.path.relpath(place(one), above).removesuffix(".md")) for one in pages]
    options = [":hidden:", *([f":caption: {title}"] if title else [])]
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])


def _entry(page: str, link: str) -> str:
    return f"{navigation.TITLES[page]} <{link}>" if page in navigation.TITLES else link
