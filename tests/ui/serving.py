"""A page that is served, and a browser that looks at it."""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, Page

from gpusharing.cli.ui.file import FileLookup, FileSource
from gpusharing.occupancy.fleet import Fleet
from gpusharing.snapshots.world import World
from gpusharing.ui.history import DAY, Sample, sample
from gpusharing.ui.loopback import LoopbackServer, root
from gpusharing.ui.pages import Pages
from gpusharing.ui.picture import Picture
from gpusharing.ui.site import UiSite
from harness.system import system_program

_FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
AXE: Final = Path(__file__).parent / "vendored" / "axe.min.js"
_MORNING: Final = 1_780_034_400
PATIENCE: Final = 60_000
"""Milliseconds, on a busy machine."""


def chromium() -> dict[str, Any]:
    """How it is launched."""
    program = system_program("chromium", package="chromium")
    return {"executable_path": program, "args": list(_FLAGS), "timeout": 3 * PATIENCE}


class Changing(FileSource):
    """A file that somebody replaces."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.lookup = FileLookup(world)
        self._is_new = threading.Condition()

    def become(self, world: World) -> None:
        self.show(FileSource(world).picture().fleet)

    def show(self, fleet: Fleet) -> None:
        with self._is_new:
            self._picture = replace(self._picture, number=self._picture.number + 1, fleet=fleet)
            self._is_new.notify_all()

    def later(self, number: int, patience: float) -> Picture:
        with self._is_new:
            self._is_new.wait_for(lambda: self._picture.number != number, patience)
            return self._picture


class WithHistory(Changing):
    """A process that has seen a day."""

    @property
    def samples(self) -> Sequence[Sample]:
        now = sample(self.picture().fleet, _MORNING)
        return [_earlier(now, number) for number in range(0, DAY, 600)]


def _earlier(now: Sample, seconds: int) -> Sample:
    """A night in which few work."""
    work = 0.55 + 0.45 * math.sin(2 * math.pi * (seconds / DAY - 0.3))
    used = [round(1.4 * work * count) for count in now.gpus[:4]]
    gpus = (*used, sum(now.gpus) - sum(used) - now.gpus[-1], now.gpus[-1])
    return Sample(now.at + seconds, gpus, now.promised, max(round(6 * work - 4), 0))


@contextmanager
def served(source: Changing) -> Iterator[LoopbackServer]:
    with LoopbackServer() as server:
        server.site = UiSite(source, source.lookup, Pages(cluster="kind-example", root=root(server.secret)))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Visit:
    """What a page asked for, and what the browser complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def went_elsewhere(self, url: str) -> list[str]:
        return [one for one in self.requests if not one.startswith(url)]


@contextmanager
def visiting(
    browser: Browser,
    *,
    width: int = 1280,
    height: int = 900,
    dark: bool = False,
    with_scripts: bool = True,
) -> Iterator[Visit]:
    context: BrowserContext = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        java_script_enabled=with_scripts,
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    visit = Visit(page)
    page.on("request", lambda request: visit.requests.append(request.url))
    page.on("console", lambda message: visit.complaints.append(message.text))
    page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    try:
        yield visit
    finally:
        context.close()


def faults(page: Page) -> list[str]:
    """What axe-core finds."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes']][:3]}"
        for one in found["violations"]
    ]
