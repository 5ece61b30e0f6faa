"""Chromium, once for each file of tests."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from ui.serving import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**chromium())
        yield browser
        browser.close()
