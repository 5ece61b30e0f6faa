"""The pictures that code makes: words stay inside and apart, in both color schemes."""

from itertools import combinations
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import Browser

IMAGES: Final = sorted((Path(__file__).parents[2] / "docs/images").glob("concepts-*.svg"))
_SVG: Final = "{http://www.w3.org/2000/svg}"
_BOXES: Final = """() => [...document.querySelectorAll('text')].map(text => {
    const box = text.getBBox();
    return [text.textContent, box.x, box.y, box.x + box.width, box.y + box.height];
})"""


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.stem)
def test_it_says_what_it_shows(image: Path) -> None:
    root = ET.fromstring(image.read_text())  # noqa: S314 (ours)
    assert root.findtext(f"{_SVG}title")
    assert len(root.findtext(f"{_SVG}desc") or "") > 100


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.stem)
def test_words_are_inside_and_apart(image: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"file://{image}")
    words = page.evaluate(_BOXES)
    view = page.evaluate("(({width, height}) => [width, height])(document.documentElement.viewBox.baseVal)")
    page.close()
    assert len(words) > 15
    outside = [one[0] for one in words if min(one[1:3]) < 0 or one[3] > view[0] or one[4] > view[1]]
    assert outside == []
    assert [(one[0], other[0]) for one, other in combinations(words, 2) if overlap(one[1:], other[1:])] == []


def overlap(one: list[float], other: list[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] + 3 < other[3] and other[1] + 3 < one[3]


def test_both_color_schemes_are_readable(browser: Browser) -> None:
    """Contrast of words and what they stand on, as WCAG calculates it."""
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        for image in IMAGES:
            page.goto(f"file://{image}")
            colors = page.evaluate(
                """() => ['ground', 'area', 'object', 'program', 'taken', 'free'].flatMap(kind =>
                    [...document.querySelectorAll('rect.' + kind)].slice(0, 1).map(rect => [
                        getComputedStyle(rect).fill,
                        getComputedStyle(document.querySelector(kind === 'taken' ? '.on-taken' : '.title')).fill]))"""
            )
            assert [pair for pair in colors if contrast(*pair) < 4.5] == [], (scheme, image.name)
        page.close()


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
