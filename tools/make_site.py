"""Makes dist/site from the pages of the repository. Whatever is doubtful ends it: broken links, unknown anchors."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from sphinx.application import Sphinx

from website.sources import BrokenLinkError, write_sources

ROOT: Final = Path(__file__).parents[1]
SITE: Final = ROOT / "dist/site"
_DEEPEST_HEADING: Final = 6


def settings(root: Path) -> dict[str, Any]:
    return {
        "project": "GPU sharing operator",
        "html_title": "GPU sharing operator",
        "extensions": ["myst_parser", "website.files"],
        "repository": str(root),
        "html_theme": "furo",
        "html_static_path": [str(ROOT / "tools/website/static")],
        "html_css_files": ["site.css"],
        "html_js_files": ["site.js"],
        "html_show_sourcelink": False,
        "html_copy_source": False,
        "html_show_sphinx": False,
        "html_show_copyright": False,
        # A page that is a file has nothing to fetch texts with.
        "html_show_search_summary": False,
        "smartquotes": False,
        "highlight_language": "text",
        "pygments_style": "default",
        # Anchors are those of GitHub.
        "myst_heading_anchors": _DEEPEST_HEADING,
        "myst_url_schemes": ["http", "https", "mailto", "repository"],
        # Outputs and parts of files need not be whole.
        "suppress_warnings": ["misc.highlighting_failure"],
    }


def build(root: Path, site: Path, *, builder: str = "html") -> None:
    with tempfile.TemporaryDirectory() as temporary:
        sources, doctrees = Path(temporary, "sources"), Path(temporary, "doctrees")
        write_sources(root, sources)
        app = Sphinx(
            srcdir=sources,
            confdir=None,
            outdir=site,
            doctreedir=doctrees,
            buildername=builder,
            confoverrides=settings(root),
            status=None,
            warningiserror=True,
        )
        app.build()
        if app.statuscode:
            raise SystemExit("the pages have the faults above")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (default: this one)")
    parser.add_argument("--to", type=Path, default=SITE, help="the directory of the site (default: dist/site)")
    parser.add_argument("--check", action="store_true", help="only read the pages and follow their links")
    given = parser.parse_args()
    try:
        if given.check:
            with tempfile.TemporaryDirectory() as unused:
                build(given.root, Path(unused), builder="dummy")
        else:
            shutil.rmtree(given.to, ignore_errors=True)
            build(given.root, given.to)
            print(f"{given.to}/index.html")  # noqa: T201
    except BrokenLinkError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
