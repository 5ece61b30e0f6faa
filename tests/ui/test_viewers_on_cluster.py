"""`gpusharing ui-server` on a real API server: what a token shows, and in a real browser from the door to the end."""

import asyncio
import base64
import html
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from gpusharing.cli.ui_server.cluster import Cluster
from gpusharing.ui.viewers.tokens import UnknownTokenError
from gpusharing.ui.viewers.visitor import SESSION
from harness.commands import run
from harness.eventually import eventually
from harness.loopback import free_ports
from harness.processes import Process
from harness.system import system_program
from top.place import Place, place, shared_fleet
from ui.serving import PATIENCE, chromium
from ui.test_on_cluster import NODE_SHARINGS, POLICY
from ui.visiting import PAGES

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

PATHS: Final = (
    "",
    "gpu/node-0/gpu-0",
    "gpu/node-0/gpu-3",
    "node/node-0",
    "pod/ml/wide",
    "pod/vision/camera-0",
    "policy/x",
)
"""Of pages that are compared."""
RIGHTS: Final[Mapping[str, tuple[str, ...]]] = {"admin": (), "tenant": (), "counting": (NODE_SHARINGS,), "nobody": ()}
"""By service account of namespace ml: what it may read of the cluster, beside `view` in its namespace."""

expect.set_options(timeout=PATIENCE)


@dataclass
class Pages:
    """A page of one viewer, over HTTP."""

    session: aiohttp.ClientSession
    url: str
    """With what stands before all paths."""
    headers: Mapping[str, str]

    async def text(self, path: str, form: Mapping[str, str] | None = None) -> str:
        """What people read there, without moments."""
        root = re.sub(r"https?://[^/]+", "", self.url)
        origin = {"Origin": self.url.removesuffix(root)}
        asked = self.session.get if form is None else self.session.post
        async with asked(f"{self.url}{path}", headers={**origin, **self.headers}, data=form) as answer:
            page = await answer.text()
        main = re.search(r"<main.*</main>", page, re.DOTALL)
        assert main, page
        without_places = main[0].replace(root, "/")
        visible = html.unescape(re.sub(r"<[^>]*>", " ", without_places))
        without_moments = re.sub(r"\d\d:\d\d(:\d\d)?|\b\d+[smhd]\b|What [^.]* seen[^.]*\.", "", visible)
        return " ".join(without_moments.split())


@dataclass
class InCluster:
    place: Place
    port: int
    tokens: Mapping[str, str]
    session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/"

    def pages(self, name: str) -> Pages:
        """As a proxy asks for them."""
        return Pages(self.session, self.url, {"Authorization": f"Bearer {self.tokens[name]}"})

    @asynccontextmanager
    async def by_kubeconfig(self, name: str) -> AsyncIterator[Pages]:
        """As `gpusharing ui` shows them to the same service account."""
        control_plane = self.place.control_plane
        path = await control_plane.service_account_kubeconfig("ml", name)
        await control_plane.kubectl("config", "set-context", "--current", "--namespace=ml", kubeconfig=path)
        log = control_plane.directory / "logs" / f"ui-of-{name}.log"

        async def has_url() -> bool:
            return "http://" in log.read_text()

        command: list[str | Path] = [sys.executable, "-m", "gpusharing", "ui", "--kubeconfig", path]
        async with Process(command, log=log, ready=has_url).killed_at_end():
            url = re.search(r"http://\S+", log.read_text())
            assert url
            yield Pages(self.session, url[0], {})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: Path) -> AsyncIterator[InCluster]:
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(place())
        await found.fill(shared_fleet().world())
        control_plane = found.control_plane
        for name, resources in RIGHTS.items():
            await add_account(found, name, *resources)
        tokens = {name: await control_plane.service_account_token("ml", name) for name in RIGHTS}
        [port] = free_ports("127.0.0.1", 1)
        log = control_plane.directory / "logs" / "ui-server.log"

        async def serves() -> bool:
            return "serving on port" in log.read_text()

        command = [sys.executable, "-m", "gpusharing", "ui-server", "--port", str(port)]
        command += ["--api-server", control_plane.url, "--certificate-authority", str(control_plane.ca.certificate)]
        await stack.enter_async_context(Process(command, log=log, ready=serves).killed_at_end())
        session = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()))
        yield InCluster(found, port, tokens, session)
        # What it says is for those who run it: no token, no name, no URL.
        assert log.read_text() == f"serving on port {port}\n"


async def add_account(found: Place, name: str, *resources: str) -> None:
    kubectl = found.control_plane.kubectl
    account = f"--serviceaccount=ml:{name}"
    await kubectl("create", "serviceaccount", name, "--namespace=ml")
    if name == "admin":
        await kubectl("create", "clusterrolebinding", f"of-{name}", "--clusterrole=cluster-admin", account)
    elif name != "nobody":
        await kubectl("create", "rolebinding", f"of-{name}", "--namespace=ml", "--clusterrole=view", account)
    if resources:
        what = f"--resource={','.join(resources)}"
        await kubectl("create", "clusterrole", f"of-{name}", "--verb=get,list,watch", what)
        await kubectl("create", "clusterrolebinding", f"of-{name}", f"--clusterrole=of-{name}", account)


async def test_viewers_see_what_their_kubeconfigs_show(cluster: InCluster) -> None:
    """The same, word by word; and of others no word, but how many they are. All at the same time."""
    planning = asyncio.Lock()
    await asyncio.gather(*(sees_the_same(cluster, name, planning) for name in RIGHTS))


async def sees_the_same(cluster: InCluster, name: str, planning: asyncio.Lock) -> None:
    pages = cluster.pages(name)
    async with cluster.by_kubeconfig(name) as own:
        for path in PATHS:

            async def is_the_same(path: str = path) -> None:
                """Why pods wait is known a moment later."""
                text = await own.text(path)
                assert await pages.text(path) == text, f"{name} {path}"
                assert path or name == "nobody" or "GSH0" in text

            await eventually(is_the_same)
        # In a cluster, one plan is made at a time.
        async with planning:
            plan = await own.text("plan", {"policy": POLICY})
            assert await pages.text("plan", {"policy": POLICY}) == plan
    assert ("halves: timeSlicing x2" in plan) is (name == "admin")
    everything = " ".join([await pages.text(path) for path in PATHS])
    assert bool(re.search("vision/camera", everything)) is (name == "admin")
    assert ("ml/train-0" in everything) is (name != "nobody")


def without_history(page: str) -> str:
    """It fills meanwhile."""
    before, last_day, rest = page.partition("Last day")
    assert last_day
    return before + rest.partition("Plan a policy")[2]


async def test_viewers_at_the_same_time_see_their_own(cluster: InCluster) -> None:
    """While others read theirs, and in any order."""
    wanted = {name: without_history(await cluster.pages(name).text("")) for name in RIGHTS}
    assert len(set(wanted.values())) == 4

    async def look(name: str) -> None:
        for _ in range(5):
            assert without_history(await cluster.pages(name).text("")) == wanted[name]

    await asyncio.gather(*(look(name) for name in RIGHTS for _ in range(2)))


async def signed(cluster: InCluster, changes: Mapping[str, Any]) -> str:
    """A token that the API server would have made, with other claims."""
    control_plane = cluster.place.control_plane
    head, claims, _ = cluster.tokens["admin"].split(".")
    changed = json.loads(base64.urlsafe_b64decode(claims + "==")) | dict(changes)
    text = f"{head}.{base64.urlsafe_b64encode(json.dumps(changed).encode()).decode().rstrip('=')}"
    path, signature = control_plane.directory / "claims", control_plane.directory / "signature"
    path.write_text(text)
    key = control_plane.directory / "pki" / "service-accounts.key"
    await run([system_program("openssl", package="openssl"), "dgst", "-sha256", "-sign", key, "-out", signature, path])
    raw = b"".join(number.to_bytes(32) for number in numbers(signature.read_bytes()))
    return f"{text}.{base64.urlsafe_b64encode(raw).decode().rstrip('=')}"


def numbers(der: bytes) -> tuple[int, int]:
    """Of a signature, in DER: a sequence of two integers."""
    length = der[3]
    return int.from_bytes(der[4 : 4 + length]), int.from_bytes(der[6 + length :])


async def test_tokens_that_the_api_server_does_not_take(cluster: InCluster) -> None:
    control_plane = cluster.place.control_plane
    asked = Cluster(control_plane.url, control_plane.ca.certificate, PAGES)
    assert await asyncio.to_thread(asked.who, cluster.tokens["admin"]) == "system:serviceaccount:ml:admin"
    assert await asyncio.to_thread(asked.who, await signed(cluster, {})) == "system:serviceaccount:ml:admin"
    elsewhere = await control_plane.kubectl(
        "create", "token", "admin", "--namespace=ml", "--audience=https://elsewhere.example"
    )
    await control_plane.kubectl("create", "serviceaccount", "gone", "--namespace=ml")
    gone = await control_plane.service_account_token("ml", "gone")
    await control_plane.kubectl("delete", "serviceaccount", "gone", "--namespace=ml")
    head, claims, signature = cluster.tokens["admin"].split(".")
    wrong = {
        "nonsense": "nonsense",
        "expired": await signed(cluster, {"iat": 1_700_000_000, "nbf": 1_700_000_000, "exp": 1_700_003_600}),
        "elsewhere": elsewhere.strip(),
        "gone": gone,
        "unsigned": f"{head}.{claims}.",
        "forged": f"{head}.{cluster.tokens['tenant'].split('.')[1]}.{signature}",
    }
    for name, token in wrong.items():
        with pytest.raises(UnknownTokenError):
            await asyncio.to_thread(asked.who, token)
        async with cluster.session.get(cluster.url, headers={"Authorization": f"Bearer {token}"}) as answer:
            assert answer.status == 401, name
        form, origin = {"token": token}, {"Origin": cluster.url.rstrip("/")}
        async with cluster.session.post(f"{cluster.url}sign-in", headers=origin, data=form) as answer:
            assert (answer.status, answer.headers.get("Set-Cookie")) == (401, None), name


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium())
        yield browser
        await browser.close()


async def test_from_the_door_to_the_end(cluster: InCluster, browser: Browser) -> None:
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    await page.goto(cluster.url)
    await page.fill("#token", cluster.tokens["counting"])
    await page.click("main button")
    await page.wait_for_selector("body.live")
    await expect(page.locator(".viewer")).to_contain_text("system:serviceaccount:ml:counting")
    await expect(page.locator("#gpu-node-0-0")).to_contain_text("ml/train-0")
    await expect(page.locator("#gpu-node-0-0")).to_contain_text("1 of other namespaces")
    world = shared_fleet().world()
    late = json.loads(json.dumps(world.claims[0]).replace("train-0", "late").replace("node-0", "node-1"))
    await cluster.place.add_claim(late)
    await expect(page.locator("#gpu-node-1-0")).to_contain_text("ml/late")
    await page.click("#open-gpu-node-0-0")
    await expect(page.locator("#panel")).to_contain_text("Default from policy/all")
    [session] = [one for one in await context.cookies() if one.get("name") == SESSION]
    assert (session.get("httpOnly"), session.get("secure"), session.get("sameSite")) == (True, True, "Strict")
    assert cluster.tokens["counting"] not in page.url + await page.content()
    await page.click("text=Sign out")
    await expect(page.locator("#sign-in-title")).to_be_visible()
    # Who has copied the cookie has nothing.
    headers = {"Cookie": f"{SESSION}={session.get('value')}"}
    async with cluster.session.get(cluster.url, headers=headers, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/sign-in")
    await context.close()
