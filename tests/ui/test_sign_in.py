"""Signing in, in a real browser: by mouse, by keyboard, by screen reader, and without JavaScript."""

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from gpusharing.ui.viewers.visitor import NAMESPACE, SESSION
from ui.fleets import example
from ui.serving import PATIENCE, faults, visiting
from ui.test_page import SIZES, draw, is_live, reach
from ui.visiting import Open, People, open_to

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def site() -> Iterator[Open]:
    people = People({"a-token": example(), "b-token": example()})
    people.names = {"a-token": "jane@example.com", "b-token": "system:serviceaccount:ml:reader"}
    with open_to(people) as found:
        yield found


JANE: Final = "a-token"


def url(site: Open) -> str:
    return f"http://localhost:{site.server.server_port}/"


def sign_in(page: Page, token: str = JANE) -> None:
    page.fill("#token", token)
    page.click("main button")


@pytest.mark.parametrize(("size", "dark"), [(SIZES[0], False), (SIZES[1], True)], ids=["1280-light", "390-dark"])
def test_everybody_can_sign_in(browser: Browser, site: Open, size: tuple[int, int], *, dark: bool) -> None:
    width, height = size
    with visiting(browser, width=width, height=height, dark=dark) as visit:
        page = visit.page
        page.goto(url(site))
        assert page.url == f"{url(site)}sign-in"
        assert faults(page) == []
        draw(page, f"{width}-{'dark' if dark else 'light'}-sign-in")
        sign_in(page, "wrong")
        expect(page.get_by_role("alert")).to_contain_text("does not take this token")
        assert page.input_value("#token") == ""
        assert faults(page) == []
        sign_in(page)
        is_live(page)
        expect(page.locator(".viewer")).to_contain_text("jane@example.com")
        assert faults(page) == []
        draw(page, f"{width}-{'dark' if dark else 'light'}-viewer")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.cookie") == ""
        assert visit.went_elsewhere(url(site)) == []
        # What the browser says of the wrong token, with its status.
        assert [one for one in visit.complaints if "401" not in one] == []


def test_by_keyboard_and_out_again(browser: Browser, site: Open) -> None:
    with visiting(browser) as visit:
        page = visit.page
        page.goto(url(site))
        reach(page, "token")
        page.keyboard.insert_text("b-token")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "namespace"
        page.keyboard.press("Enter")
        is_live(page)
        assert {one.get("name") for one in page.context.cookies()} == {SESSION}
        expect(page.locator("#own-namespace")).to_have_value("ml")
        reach(page, "own-namespace")
        page.keyboard.press("Control+A")
        page.keyboard.insert_text("search")
        page.keyboard.press("Enter")
        expect(page.locator("#own-namespace")).to_have_value("search")
        assert {one.get("name") for one in page.context.cookies()} == {SESSION, NAMESPACE}
        page.click("text=Sign out")
        expect(page.locator("#sign-in-title")).to_be_visible()
        assert page.context.cookies() == []
        page.go_back()
        expect(page.locator("#sign-in-title")).to_be_visible()


def test_without_javascript(browser: Browser, site: Open) -> None:
    with visiting(browser, with_scripts=False) as visit:
        page = visit.page
        page.goto(url(site))
        sign_in(page)
        expect(page.locator("#gpu-node-0-0")).to_contain_text("60 of 80 GiB")
        page.click("#open-gpu-node-0-0")
        expect(page.locator("main")).to_contain_text("ml/train-2")
        expect(page.locator(".viewer")).to_contain_text("jane@example.com")
        page.click("text=Sign out")
        expect(page.locator("#sign-in-title")).to_be_visible()


def test_whose_session_is_over_signs_in_again(browser: Browser, site: Open) -> None:
    with visiting(browser) as visit:
        page = visit.page
        page.goto(url(site))
        sign_in(page)
        is_live(page)
        site.people.worlds.pop("a-token")
        site.clock.now += 60
        expect(page.locator(".lost")).to_be_visible()
        page.click("#open-gpu-node-0-0")
        expect(page.locator("#sign-in-title")).to_be_visible()
        site.people.worlds["a-token"] = example()


def test_who_comes_by_a_link_from_elsewhere(browser: Browser, site: Open) -> None:
    """Browsers do not send the cookie then; nothing is lost."""
    with visiting(browser) as visit:
        page = visit.page
        page.goto(url(site))
        sign_in(page)
        is_live(page)
        page.goto("data:text/html,<a href='" + url(site) + "'>there</a>")
        page.click("a")
        expect(page.locator("#sign-in-title")).to_be_visible()
        page.click("text=Show the page")
        is_live(page)
