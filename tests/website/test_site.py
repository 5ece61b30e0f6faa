"""The site of `make docs`: every link and anchor is there, and a browser without network shows it, on any screen."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import pytest
from playwright.sync_api import Browser, Page

from ui.serving import AXE, PATIENCE
from website.crawling import Site

ROOT: Final = Path(__file__).parents[2]
SCREENS: Final = ((1280, "light"), (1280, "dark"), (390, "dark"))
LOOKED_AT: Final = ("index", "concepts", "reference/conditions", "files/docs/examples/tenants.yaml")


def make_site(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/make_site.py"), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    directory = tmp_path_factory.mktemp("site")
    made = make_site("--to", directory)
    assert made.returncode == 0, made.stderr
    return Site(directory)


def test_every_link_and_anchor_is_there(site: Site) -> None:
    assert len(site.pages) > 50
    assert site.faults() == []


def test_styles_and_scripts_ask_no_other_host(site: Site) -> None:
    for path in site.directory.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", path.read_text()), path.name


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(reduced_motion="reduce") as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        yield page
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_pages_fit_the_screen_and_are_accessible(
    site: Site, page: Page, width: int, scheme: Literal["light", "dark"]
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    for name in LOOKED_AT:
        page.goto(f"file://{site.directory}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == [], name


def test_search_needs_no_server(site: Site, page: Page) -> None:
    page.goto(f"file://{site.directory}/index.html")
    page.get_by_role("textbox", name="Search").first.fill("maxUnavailable")
    page.keyboard.press("Enter")
    page.locator("ul.search a", has_text="Policies").first.click()
    assert page.url.startswith(f"file://{site.directory}/policies.html")


@pytest.mark.parametrize(
    ("links", "faults"),
    [
        ("[one](gone.md)", ("docs/top.md: gone.md leads nowhere",)),
        ("[one](../OTHER.md)", ("add OTHER.md to tools/website/navigation.py",)),
        ("[one](ui.md#gone), [another](#gone-as-well)", ("'gone'", "'gone-as-well'")),
    ],
)
def test_a_broken_link_ends_the_build(tmp_path: Path, links: str, faults: tuple[str, ...]) -> None:
    root = copied(tmp_path)
    (root / "OTHER.md").write_text("# Other\n")
    with (root / "docs/top.md").open("a") as page:
        page.write(f"\n{links}\n")
    made = make_site("--check", "--root", root)
    assert made.returncode != 0
    assert [fault for fault in faults if fault not in made.stderr] == []


def test_a_page_without_a_place_in_the_navigation_ends_the_build(tmp_path: Path) -> None:
    root = copied(tmp_path)
    (root / "docs/new.md").write_text("# New\n")
    made = make_site("--check", "--root", root)
    assert made.returncode != 0
    assert "navigation.py: docs/new.md" in made.stderr


def copied(directory: Path) -> Path:
    """The repository, with pages that can be changed."""
    for path in ROOT.iterdir():
        if path.name == "docs":
            shutil.copytree(path, directory / path.name)
        else:
            (directory / path.name).symlink_to(path)
    return directory
