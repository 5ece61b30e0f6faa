"""`gpusharing ui` on a real API server, in a real browser: by an administrator, and by a tenant."""

import asyncio
import copy
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from agent.on_cluster import RESOURCE, SHARINGS
from gpusharing.cli.reading import client as client_module
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.ui.live import LiveSource
from gpusharing.snapshots.world import World
from harness.processes import Process
from top.place import Place, place, shared_fleet
from ui.serving import PATIENCE, chromium

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

POLICY: Final = """\
apiVersion: gpusharing.dev/v1alpha1
kind: SharingPolicy
metadata: {name: halves}
spec:
  offers:
    timeSlicing: {maxClients: 2}
"""
NODE_SHARINGS: Final = "nodesharings.gpusharing.dev"

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def world() -> World:
    return shared_fleet().world()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: Path, world: World) -> AsyncIterator[Place]:
    async with place() as found:
        await found.fill(world)
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium())
        yield browser
        await browser.close()


@asynccontextmanager
async def page_of(cluster: Place, browser: Browser, kubeconfig: Path | None = None) -> AsyncIterator[Page]:
    """As the command serves it."""
    log = cluster.control_plane.directory / "logs" / "ui.log"

    async def has_url() -> bool:
        return "http://" in log.read_text()

    command = [sys.executable, "-m", "gpusharing", "ui", "--kubeconfig"]
    log.unlink(missing_ok=True)
    program = Process([*command, kubeconfig or cluster.control_plane.kubeconfig], log=log, ready=has_url)
    async with program.killed_at_end():
        url = re.search(r"http://\S+", log.read_text())
        assert url
        context = await browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        await page.goto(url[0])
        await page.wait_for_selector("body.live")
        yield page
        await context.close()


async def tenant(cluster: Place, name: str, *resources: str) -> Path:
    """With ClusterRole `view` in namespace ml, and the right to read these of the cluster."""
    kubectl = cluster.control_plane.kubectl
    await kubectl("create", "rolebinding", name, "-n", "ml", "--clusterrole=view", f"--user={name}")
    if resources:
        what = f"--resource={','.join(resources)}"
        await kubectl("create", "clusterrole", name, "--verb=get,list,watch", what)
        await kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={name}")
    path = await cluster.control_plane.user_kubeconfig(name)
    await kubectl("config", "set-context", "--current", "--namespace=ml", kubeconfig=path)
    return path


async def text_of(page: Page) -> str:
    return " ".join((await page.content()).split())


async def test_an_administrator_sees_what_changes(cluster: Place, browser: Browser, world: World) -> None:
    async with page_of(cluster, browser) as page:
        row = page.locator("#gpu-node-0-0")
        await expect(row).to_contain_text("ml/train-0")
        await expect(row).to_contain_text("vision/camera-0")
        await expect(row.locator(".mode")).to_contain_text("3 of 4 shares")
        await expect(page.locator("#waiting")).to_contain_text("GSH0235")
        free = page.locator("#gpu-node-1-0")
        await expect(free).to_contain_text("free for any mode")
        late = json.loads(json.dumps(world.claims[0]).replace("train-0", "late").replace("node-0", "node-1"))
        await cluster.add_claim(late)
        await expect(free).to_contain_text("ml/late")
        await expect(page.locator("#summary")).to_contain_text("5of 8")
        await cluster.admin.call("DELETE", f"{RESOURCE}/namespaces/ml/resourceclaims/late")
        await expect(free).to_contain_text("free for any mode")


async def test_details_are_read_when_somebody_asks(cluster: Place, browser: Browser) -> None:
    claim = await cluster.admin.call("GET", f"{RESOURCE}/namespaces/ml/resourceclaims/train-0")
    about = {"kind": "ResourceClaim", "namespace": "ml", "name": "train-0", "uid": claim["metadata"]["uid"]}
    body = {"metadata": {"name": "said"}, "involvedObject": about, "reason": "Said", "message": "who has it"}
    await cluster.admin.call("POST", "/api/v1/namespaces/ml/events", body)
    async with page_of(cluster, browser) as page:
        panel = page.locator("#panel")
        for link, texts in {
            "gpu-node-0-0": ("shares 2", "vision/camera-0", "Default from policy/all", "Said", "who has it"),
            "pod-ml-wide": ("Too few devices", "Request gpu"),
            "node-node-0": ("Node node-0 has 4 GPUs, 4 in use.",),
        }.items():
            await page.click(f"#open-{link}")
            for text in texts:
                await expect(panel).to_contain_text(text)
            await page.click("#panel .close")


async def test_of_others_a_tenant_sees_only_how_many_they_are(cluster: Place, browser: Browser) -> None:
    jane = await tenant(cluster, "jane", NODE_SHARINGS)
    async with page_of(cluster, browser, jane) as page:
        row = page.locator("#gpu-node-0-0")
        await expect(row).to_contain_text("ml/train-0")
        await expect(row).to_contain_text("1 of other namespaces")
        await expect(row.locator(".mode")).to_contain_text("3 of 4 shares")
        await expect(page.locator("#summary")).to_contain_text("4of 8")
        await expect(page.locator("#notes")).to_contain_text("counted without their names")
        await page.click("#open-gpu-node-0-0")
        await expect(page.locator("#panel")).to_contain_text("1 other")
        await page.click("#panel .close")
        # Where nobody of its own is.
        await page.click("#open-gpu-node-0-3")
        await expect(page.locator("#panel")).to_contain_text("You may not read the names of others.")
        await page.click("#panel .close")
        await page.click("#open-node-node-0")
        await expect(page.locator("#panel")).to_contain_text("of other namespaces")
        await page.click("#panel .close")
        await page.fill("#policy", POLICY)
        await page.click("text=Show the plan")
        await expect(page.get_by_role("alert")).to_contain_text("A plan needs nodes")
        assert not re.search("vision|camera", await text_of(page))


async def test_a_tenant_who_sees_no_node_sharing_sees_its_own_claims(cluster: Place, browser: Browser) -> None:
    joe = await tenant(cluster, "joe")
    async with page_of(cluster, browser, joe) as page:
        await expect(page.locator("#gpu-node-0-0")).to_contain_text("ml/train-0")
        await expect(page.locator("#notes")).to_contain_text("GPUs are known only by the claims that you may read")
        await expect(page.locator("tr.gpu")).to_have_count(2)
        await expect(page.locator("#policies")).to_contain_text("You may not read SharingPolicies.")
        assert not re.search("vision|camera", await text_of(page))


async def test_the_plan_of_a_pasted_policy(cluster: Place, browser: Browser) -> None:
    async with page_of(cluster, browser) as page:
        await page.fill("#policy", POLICY)
        await page.click("text=Show the plan")
        await expect(page.locator("#plan-result")).to_contain_text("halves: timeSlicing x2")
    policies = await cluster.admin.call("GET", SHARINGS.replace("nodesharings", "sharingpolicies"))
    assert policies["items"] == [], "it was not applied"


async def test_when_the_api_server_is_away_the_page_says_so(cluster: Place, browser: Browser) -> None:
    async with page_of(cluster, browser) as page:
        await expect(page.locator("#gpu-node-0-0")).to_contain_text("ml/train-0")
        await cluster.control_plane.apiserver.stop()
        await expect(page.locator("#notes .bad")).to_be_visible()
        await expect(page.locator("#gpu-node-0-0")).to_contain_text("ml/train-0")
        await page.click("#open-gpu-node-0-0")
        await expect(page.locator("#panel")).to_contain_text("no answer from")
        await cluster.control_plane.apiserver.start()
        await expect(page.locator("#notes .bad")).to_have_count(0)


async def test_the_still_picture(cluster: Place) -> None:
    command = [sys.executable, "-m", "gpusharing", "ui", "-o", "html"]
    command += ["--kubeconfig", str(cluster.control_plane.kubeconfig)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("vision/camera-0", "GSH0235", "3 of 4 shares"):
        assert text in done.stdout


async def test_all_pages_of_lists_are_read(cluster: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata of lists of our kinds come last."""
    monkeypatch.setattr(client_module, "PAGE", 1)

    def no_world() -> World:
        raise AssertionError

    def names() -> list[str]:
        found = access(cluster.control_plane.kubeconfig, None)
        with Client(found) as client, LiveSource(client, "default", no_world) as source:
            return [node.name for node in source.picture().fleet.nodes]

    assert await asyncio.to_thread(names) == ["node-0", "node-1"]


async def test_a_policy_with_its_conditions(cluster: Place, browser: Browser) -> None:
    path = SHARINGS.replace("nodesharings", "sharingpolicies")
    identity = {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy", "metadata": {"name": "thirds"}}
    rollout = {"mode": "Plan", "disruption": "Evict"}
    made = await cluster.admin.call(
        "POST", path, {**identity, "spec": {"offers": {"timeSlicing": {"maxClients": 3}}, "rollout": rollout}}
    )
    condition = {
        "status": "True",
        "message": "it is a plan",
        "lastTransitionTime": made["metadata"]["creationTimestamp"],
    }
    conditions = [
        {"type": "Accepted", "reason": "Accepted", **condition},
        {"type": "Ready", "reason": "Plan", **condition, "status": "False"},
    ]
    planned: dict[str, Any] = {
        "totals": {"nodes": 1, "gpus": 1, "claims": 1, "evicted": 1},
        "nodes": [
            {
                "node": "node-0",
                "gpus": [{"uuid": "GPU-1", "to": "thirds", "effect": "Evicts", "claims": ["ml/train-0"]}],
            }
        ],
    }
    async with page_of(cluster, browser) as page:
        await expect(page.locator("#policies")).to_contain_text("no status yet")
        status = {"conditions": conditions, "plan": planned, "nodes": {"selected": 2, "ready": 0}}
        await cluster.admin.merge(f"{path}/thirds/status", {"status": copy.deepcopy(status)})
        await expect(page.locator("#policies .waits")).to_have_text("Plan")
        await page.click("#open-policy-thirds")
        for text in ("0 of 2 in force", "Evict", "no policy → thirds: Evicts", "it is a plan", "1 GPUs on 1 nodes"):
            await expect(page.locator("#panel")).to_contain_text(text)
