"""Files and directories that pages link to, as pages of the site: an extension of Sphinx."""

import html
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.application import Sphinx

from website.sources import FILE

_PAGES: Final = "files"
_APPLIED: Final = {".yaml"}
"""What people open a directory for."""

Page = tuple[str, dict[str, Any], str]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("repository", "", "env", str)
    app.connect("doctree-resolved", _lead_to_files)
    app.connect("html-collect-pages", _pages)
    # Pygments does not know them.
    app.add_lexer("cel", TextLexer)
    app.add_lexer("promql", TextLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _lead_to_files(app: Sphinx, doctree: nodes.document, page: str) -> None:
    for link in doctree.findall(nodes.reference):
        if (target := link.get("refuri", "")).startswith(FILE):
            path, hash_, anchor = target.removeprefix(FILE).partition("#")
            link["refuri"] = app.builder.get_relative_uri(page, _page(path)) + hash_ + anchor


def _page(path: str) -> str:
    return f"{_PAGES}/{path}"


def _linked(app: Sphinx) -> set[str]:
    root = Path(app.config.repository)
    links = (
        link.get("refuri", "")
        for page in app.env.found_docs
        for link in app.env.get_doctree(page).findall(nodes.reference)
    )
    linked = {link.removeprefix(FILE).partition("#")[0] for link in links if link.startswith(FILE)}
    applied = {
        path.relative_to(root).as_posix()
        for directory in linked
        if (root / directory).is_dir()
        for path in (root / directory).rglob("*")
        if path.suffix in _APPLIED
    }
    return linked | applied


def _pages(app: Sphinx) -> Iterator[Page]:
    root, linked = Path(app.config.repository), _linked(app)
    for path in sorted(linked):
        body = _directory(app, root / path, path, linked) if (root / path).is_dir() else _file(root / path)
        navigation = _navigation(app.builder.get_relative_uri(_page(path), app.config.root_doc))
        context = {
            "title": path,
            "body": f"<h1>{html.escape(path)}</h1>\n{body}",
            "toctree": lambda navigation=navigation, **_: navigation,
        }
        yield _page(path), context, "page.html"


def _navigation(start: str) -> str:
    """Not the whole: hundreds of files would take as long as all pages together."""
    entry = f'<a class="reference internal" href="{html.escape(start)}">All pages</a>'
    return f'<ul><li class="toctree-l1">{entry}</li></ul>'


def _file(path: Path) -> str:
    text = path.read_text()
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    return str(highlight(text, lexer, HtmlFormatter(cssclass="highlight")))


def _directory(app: Sphinx, directory: Path, path: str, linked: set[str]) -> str:
    def entry(name: str) -> str:
        named = posixpath.join(path, name)
        if named not in linked:
            return f"<li><code>{html.escape(name)}</code></li>"
        link = app.builder.get_relative_uri(_page(path), _page(named))
        return f'<li><a href="{html.escape(link)}"><code>{html.escape(name)}</code></a></li>'

    below = {one.relative_to(directory).as_posix() for one in directory.rglob("*") if one.is_file()}
    names = sorted(name for name in below if "__pycache__" not in name)
    return f"<ul>{''.join(map(entry, names))}</ul>"
