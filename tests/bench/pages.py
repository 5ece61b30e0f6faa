"""How long `gpusharing ui` takes in front of a large fleet, in a real browser."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from playwright.async_api import Page, async_playwright

from agent.on_cluster import Admin
from bench.figures import Figure, absolute, p50
from bench.operating.crowd import claim_path
from ui.serving import chromium

_ROUNDS: Final = 9
_TIMEOUT: Final = 120_000
_LONGEST_TASK: Final = """() => new Promise((done) => {
  let longest = 0;
  new PerformanceObserver((list) => { for (const one of list.getEntries()) longest = Math.max(longest, one.duration); })
    .observe({type: "longtask", buffered: true});
  setTimeout(() => done(longest), 200);
})"""
_NOT_THERE: Final = "([id, text]) => !document.getElementById(id).textContent.includes(text)"


async def figures(kubeconfig: Path, admin: Admin, fleet: str) -> Sequence[Figure]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "gpusharing", "ui", "--kubeconfig", str(kubeconfig)]
    program = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    try:
        assert program.stdout is not None
        url = (await program.stdout.readline()).decode().strip()
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(**chromium())
            page = await browser.new_page()
            page.set_default_timeout(_TIMEOUT)
            await page.goto(url)
            first = time.perf_counter() - began
            loads = [await _load(page, url) for _ in range(_ROUNDS)]
            freeze = float(await page.evaluate(_LONGEST_TASK)) / 1000
            updates = [await _update(page, admin, number) for number in range(_ROUNDS)]
            await browser.close()
        resident = _resident_mib(program.pid)
    finally:
        program.kill()
        await program.wait()
    name = f"`gpusharing ui`, {fleet}"
    return [
        absolute(f"{name}, from its start to the first page", first, "s", at_most=10),
        absolute(f"{name}, a page in the browser, median of {_ROUNDS}", p50(loads), "s", at_most=2),
        absolute(f"{name}, longest time for which the browser does not answer", freeze, "s", at_most=0.2),
        absolute(f"{name}, from a change to the page, median of {_ROUNDS}", p50(updates), "s", at_most=0.3),
        absolute(f"{name}, resident memory", resident, "MiB", at_most=400),
    ]


async def _load(page: Page, url: str) -> float:
    began = time.perf_counter()
    await page.goto(url)
    await page.wait_for_selector("body.live")
    return time.perf_counter() - began


async def _update(page: Page, admin: Admin, number: int) -> float:
    """A claim of the nodes that are shown is deleted."""
    claim = claim_path(number)
    row, name = f"gpu-node-{number:04}-0", claim.rpartition("/")[2]
    await page.wait_for_function(f"document.getElementById('{row}').textContent.includes('{name}')")
    await admin.call("DELETE", claim)
    began = time.perf_counter()
    await page.wait_for_function(_NOT_THERE, arg=[row, name])
    return time.perf_counter() - began


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
