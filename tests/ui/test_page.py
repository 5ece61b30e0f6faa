"""The page in a real browser: what people see, by mouse, by keyboard, by screen reader, and without JavaScript.

The screens are references to look at, and are not compared: another version of the browser draws other pixels.
`GPUSHARING_WRITE_SCREENS=1 pytest tests/ui/test_page.py` writes them.
"""

import copy
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from gpusharing.snapshots.world import World
from gpusharing.ui.loopback import LoopbackServer
from top.scenes import SCENES
from ui.fleets import HOSTILE, example, hostile, large
from ui.serving import PATIENCE, Changing, WithHistory, faults, served, visiting

SCREENS: Final = Path(__file__).parent / "screens"
KEPT: Final = (
    "1280-light",
    "1280-dark-gpu",
    "390-light",
    "390-dark-gpu",
    "1280-light-sign-in",
    "390-dark-sign-in",
    "390-dark-viewer",
)
SIZES: Final = ((1280, 900), (390, 844))
MISTAKE: Final = (
    "apiVersion: gpusharing.dev/v1alpha1\nkind: SharingPolicy\nmetadata: {name: wrong}\nspec: {offer: {}}\n"
)
HALVES: Final = """\
apiVersion: gpusharing.dev/v1alpha1
kind: SharingPolicy
metadata: {name: all-modes}
spec:
  offers:
    timeSlicing: {maxClients: 2}
"""

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with served(WithHistory(example())) as server:
        yield server


def is_live(page: Page) -> None:
    page.wait_for_selector("body.live")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES, ids=["1280", "390"])
def test_everybody_can_read_it(
    browser: Browser, server: LoopbackServer, width: int, height: int, *, dark: bool
) -> None:
    with visiting(browser, width=width, height=height, dark=dark) as visit:
        page = visit.page
        page.goto(server.url)
        is_live(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        name = f"{width}-{'dark' if dark else 'light'}"
        draw(page, name)
        assert faults(page) == []
        page.click("#open-gpu-node-0-0")
        expect(page.locator("#panel")).to_contain_text("ml/train-1")
        draw(page, f"{name}-gpu")
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.went_elsewhere(server.url) == []
        assert visit.complaints == []


ALONE: Final = (
    "gpu/node-0/gpu-1",
    "gpu/node-2/gpu-1",
    "node/node-1",
    "pod/search/index-c",
    "pod/ml/train-0",
    "policy/all-modes",
    "history",
    "nothing",
)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_details_are_pages_as_well(browser: Browser, server: LoopbackServer, *, dark: bool) -> None:
    titles = set()
    with visiting(browser, dark=dark) as visit:
        for path in ALONE:
            visit.page.goto(f"{server.url}{path}")
            assert faults(visit.page) == [], path
            titles.add(visit.page.title())
        assert visit.went_elsewhere(server.url) == []
    assert len(titles) == len(ALONE)


@pytest.mark.parametrize("scene", ["measured", "tenant", "without-node-sharings", "sick"])
@pytest.mark.parametrize(("width", "height"), SIZES, ids=["1280", "390"])
def test_whatever_there_is_fits(browser: Browser, scene: str, width: int, height: int) -> None:
    source = Changing(example())
    source.show(SCENES[scene]())
    with served(source) as server, visiting(browser, width=width, height=height) as visit:
        visit.page.goto(server.url)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert faults(visit.page) == []


def draw(page: Page, name: str) -> None:
    if name in KEPT and os.environ.get("GPUSHARING_WRITE_SCREENS"):
        SCREENS.mkdir(exist_ok=True)
        page.screenshot(path=SCREENS / f"{name}.png")


def test_what_a_gpu_has(browser: Browser, server: LoopbackServer) -> None:
    """Who, limits, neighbours, where each setting came from, Events."""
    with visiting(browser) as visit:
        visit.page.goto(server.url)
        visit.page.click("#open-gpu-node-0-0")
        panel = visit.page.locator("#panel")
        for text in (
            "node-0/gpu-0",
            "TimeSlicing, 3 of 4 shares",
            "60 of 80 GiB",
            "memory 20Gi, shares 1",
            "ml/train-1, ml/train-2",
            "Default from policy/all-modes",
            "SettingIgnored",
            "claim uses GPU gpu-0",
        ):
            expect(panel).to_contain_text(text)


def test_by_keyboard_alone(browser: Browser, server: LoopbackServer) -> None:
    with visiting(browser) as visit:
        page = visit.page
        page.goto(server.url)
        is_live(page)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        reach(page, "open-gpu-node-1-0")
        page.keyboard.press("Enter")
        expect(page.locator("#panel h2")).to_have_text("node-1/gpu-0")
        expect(page.locator("#panel h2")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_be_empty()
        expect(page.locator("#open-gpu-node-1-0")).to_be_focused()
        reach(page, "policy")
        page.keyboard.insert_text(HALVES)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#plan-result")).to_contain_text("all-modes: timeSlicing x2")


def reach(page: Page, wanted: str) -> None:
    for _ in range(100):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == wanted:
            return
    pytest.fail(f"{wanted} is not reached by the tab key")


def test_details_in_a_tab_of_their_own(browser: Browser, server: LoopbackServer) -> None:
    with visiting(browser) as visit:
        visit.page.goto(server.url)
        with visit.page.context.expect_page() as opened:
            visit.page.click("#open-gpu-node-0-0", modifiers=["Control"])
        expect(opened.value.locator("main")).to_contain_text("ml/train-2")
        expect(visit.page.locator("#panel")).to_be_empty()


def test_without_javascript(browser: Browser, server: LoopbackServer) -> None:
    with visiting(browser, with_scripts=False) as visit:
        page = visit.page
        page.goto(server.url)
        expect(page.get_by_text("Without JavaScript")).to_be_visible()
        page.click("#open-gpu-node-0-0")
        expect(page.locator("main")).to_contain_text("ml/train-2")
        page.click("text=All GPUs")
        page.fill("#q", "index-b")
        page.click("text=Show >> nth=0")
        expect(page.locator("tr.gpu")).to_have_count(1)
        page.goto(server.url)
        page.click("#open-policy-all-modes")
        expect(page.locator("main")).to_contain_text("4 of 4 in force")
        page.goto(f"{server.url}history")
        expect(page.locator("main")).to_contain_text("Pods waiting")
        page.goto(server.url)
        page.fill("#policy", MISTAKE)
        page.click("text=Show the plan")
        expect(page.get_by_role("alert")).to_contain_text("Line 4")
        page.fill("#policy", HALVES)
        page.click("text=Show the plan")
        expect(page.locator("main")).to_contain_text("waits for")
        assert visit.went_elsewhere(server.url) == []


def test_a_pasted_policy(browser: Browser, server: LoopbackServer) -> None:
    with visiting(browser) as visit:
        page = visit.page
        page.goto(server.url)
        page.fill("#policy", MISTAKE)
        page.click("text=Show the plan")
        expect(page.get_by_role("alert")).to_contain_text("Line 4")
        expect(page.get_by_role("alert")).to_contain_text("spec.offer")
        page.fill("#policy", HALVES)
        page.click("text=Show the plan")
        expect(page.locator("#plan-result")).to_contain_text("16 of 16 GPUs")
        assert faults(page) == []


def test_only_what_changes_is_drawn_again(browser: Browser) -> None:
    source = Changing(example())
    with served(source) as server, visiting(browser) as visit:
        page = visit.page
        page.goto(server.url)
        is_live(page)
        page.focus("#open-gpu-node-0-0")
        for row in ("gpu-node-0-0", "gpu-node-0-3"):
            page.evaluate(f"document.getElementById('{row}').dataset.seen = 'yes'")
        less = example()
        first = less.claims[0]["metadata"]["name"]
        source.become(without(less, first))
        expect(page.locator("#gpu-node-0-0 .mode")).to_contain_text("2 of 4 shares")
        expect(page.locator("#gpu-node-0-0")).not_to_have_attribute("data-seen", "yes")
        expect(page.locator("#gpu-node-0-3")).to_have_attribute("data-seen", "yes")
        expect(page.locator("#open-gpu-node-0-0")).to_be_focused()
        assert visit.complaints == []


def without(world: World, claim: str) -> World:
    """As if it had never been."""
    sharings = copy.deepcopy(list(world.node_sharings))
    for sharing in sharings:
        for gpu in sharing["spec"]["gpus"]:
            gpu["allocated"] = [one for one in gpu.get("allocated", ()) if one["claim"] != f"uid-{claim}"]
    claims = [one for one in world.claims if one["metadata"]["name"] != claim]
    return replace(world, claims=claims, node_sharings=sharings)


def test_open_details_follow(browser: Browser) -> None:
    source = Changing(example())
    with served(source) as server, visiting(browser) as visit:
        page = visit.page
        page.goto(server.url)
        is_live(page)
        page.click("#open-gpu-node-0-0")
        expect(page.locator("#panel")).to_contain_text("3 of 4 shares")
        page.focus("#q")
        source.become(without(example(), "train-0"))
        expect(page.locator("#panel")).to_contain_text("2 of 4 shares")
        expect(page.locator("#q")).to_be_focused()


def test_a_lost_connection_is_said(browser: Browser) -> None:
    with visiting(browser) as visit:
        with served(Changing(example())) as server:
            visit.page.goto(server.url)
            is_live(visit.page)
            expect(visit.page.locator(".lost")).to_be_hidden()
        expect(visit.page.locator(".lost")).to_be_visible()


def test_names_and_messages_carry_no_script(browser: Browser) -> None:
    source = Changing(hostile())
    with served(source) as server, visiting(browser) as visit:
        page = visit.page
        page.goto(server.url)
        is_live(page)
        title = page.title()
        for link in ("#open-gpu-node-0-0", "#open-policy-all-modes", "#open-node-node-0"):
            page.click(link)
            expect(page.locator("#panel h2")).to_be_visible()
            page.click("#panel .close")
        page.click("#open-gpu-node-0-0")
        expect(page.locator("#panel")).to_contain_text(HOSTILE)
        page.click("nav >> text=Plan")
        page.fill("#policy", f"kind: '{HOSTILE}'")
        page.click("text=Show the plan")
        expect(page.get_by_role("alert")).to_be_visible()
        source.become(example())
        source.become(hostile())
        expect(page.locator("#policies")).to_contain_text("onerror")
        page.goto(f"{server.url}?q={HOSTILE}")
        assert page.title() == title
        assert page.locator("img, main script").count() == 0
        assert visit.went_elsewhere(server.url) == []


def test_a_large_fleet_comes_in_pages(browser: Browser) -> None:
    with served(Changing(large(45))) as server, visiting(browser) as visit:
        page = visit.page
        page.goto(server.url)
        expect(page.locator("tr.node")).to_have_count(20)
        page.click("text=Next")
        page.click("text=Next")
        expect(page.locator("tr.node")).to_have_count(5)
        expect(page.locator(".pages")).to_contain_text("Page 3 of 3, 45 nodes")
        page.click(".legend >> text=Idle")
        expect(page.locator("tr.gpu.exclusive")).to_have_count(0)
