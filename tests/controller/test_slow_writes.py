"""An API server that takes its time over some writes, or refuses them, because of somebody's webhook."""

import asyncio
import ssl
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from controller.bed import Everybody, Operator, eventually, everybody, install
from gpusharing.kube.kinds import EVENTS, NODE_SHARINGS, RESOURCE_CLAIMS, Kind
from harness.controlplane import ControlPlane
from harness.loopback import free_ports

pytestmark = pytest.mark.cluster

NODES: Final = [f"n{number:02}" for number in range(60)]
SLOW: Final = 1.0
SHARED: Final = {"timeSlicing": {"maxClients": 4}}

WEBHOOKS: Final[Kind[dict[str, Any]]] = Kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    dict[str, Any],
)
RAW_NAMESPACES: Final[Kind[dict[str, Any]]] = Kind("v1", "Namespace", "namespaces", dict[str, Any])

Judges = Callable[[dict[str, Any]], Awaitable[bool]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: object) -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        yield control_plane


@pytest_asyncio.fixture
async def operator(cluster: ControlPlane) -> AsyncIterator[Operator]:
    async with await Operator.of(cluster) as operator:
        yield operator


@pytest_asyncio.fixture
async def they(cluster: ControlPlane) -> AsyncIterator[Everybody]:
    async with everybody(cluster) as they:
        yield they
        await they.clean_up()


@asynccontextmanager
async def webhook(
    cluster: ControlPlane, they: Everybody, *, group: str, version: str, resource: str, operation: str, judges: Judges
) -> AsyncIterator[None]:
    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        answer = {"uid": asked["uid"], "allowed": await judges(asked)}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})

    (port,) = free_ports(cluster.address, 1)
    certificate = await cluster.ca.server("webhook", f"IP:{cluster.address}")
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(certificate.certificate, certificate.key)
    app = web.Application()
    app.add_routes([web.post("/", review)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, cluster.address, port, ssl_context=trust).start()
    rule = {"apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [resource]}
    hook = {
        "name": "somebody.example.com",
        "clientConfig": {
            "url": f"https://{cluster.address}:{port}/",
            "caBundle": b64encode(cluster.ca.certificate.read_bytes()).decode(),
        },
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
    }
    made = await they.api.create(WEBHOOKS, {"metadata": {"name": "somebody"}, "webhooks": [hook]})
    # The API server learns of it by a watch.
    await asyncio.sleep(1.5)
    try:
        yield
    finally:
        await they.api.delete(WEBHOOKS, "somebody", uid=made["metadata"]["uid"])
        await runner.cleanup()


async def ready(operator: Operator) -> bool:
    async with aiohttp.ClientSession() as session, session.get(f"{operator.url}/readyz") as response:
        return response.status == 200


async def test_a_claim_does_not_wait_for_a_slow_rollout(
    cluster: ControlPlane, operator: Operator, they: Everybody
) -> None:
    """Nor does the policy's status, and the operator stays ready and alive."""
    for name in (*NODES, "tenant"):
        await they.make_node(name, labels={"pool": "tenant" if name == "tenant" else "all"})
    await eventually(lambda: they.winners(NODES[-1]), [None])
    await eventually(lambda: they.winners("tenant"), [None])

    async def takes_its_time(asked: dict[str, Any]) -> bool:
        if asked.get("subResource", "") == "" and asked["userInfo"]["username"].endswith(":gpusharing-operator"):
            await asyncio.sleep(SLOW)
        return True

    kind = {"group": "gpusharing.dev", "version": "v1alpha1", "resource": "nodesharings", "operation": "UPDATE"}
    async with webhook(cluster, they, **kind, judges=takes_its_time):
        began = time.monotonic()
        await they.apply_policy("wide", nodes={"matchLabels": {"pool": "all"}})
        await eventually(lambda: they.ready_reason("wide"), "WaitingForNodes", within=3)
        uid = await they.hold("c1", device="gpu-0", node="tenant")
        asked = time.monotonic()
        await eventually(lambda: they.holders("tenant"), {uid}, within=10)
        waited = time.monotonic() - asked
        assert await ready(operator)
        written = [bool(sharing.spec.gpus[0].policy) for sharing in (await they.api.list(NODE_SHARINGS))[0]]
        # The rollout was still under way, and takes four turns of the webhook at least.
        assert sum(written) < len(NODES)
        assert waited < 3 * SLOW
        for name in NODES:
            await eventually(lambda name=name: they.winners(name), ["wide"])  # type: ignore[misc]
        assert time.monotonic() - began > 4 * SLOW


async def test_what_a_webhook_refuses_in_one_namespace_is_no_ones_elses_trouble(
    cluster: ControlPlane, operator: Operator, they: Everybody
) -> None:
    async def refuses(asked: dict[str, Any]) -> bool:
        return bool(asked["namespace"] != "team-b")

    for name in ("team-a", "team-b"):
        await they.api.create(RAW_NAMESPACES, {"metadata": {"name": name, "labels": {"team": "search"}}})
    kind = {"group": "", "version": "v1", "resource": "resourcequotas", "operation": "CREATE"}
    async with webhook(cluster, they, **kind, judges=refuses):
        tenants = {"namespaces": {"matchLabels": {"team": "search"}}, "quota": {"timeSlicing": 2}}
        await they.apply_policy("quoted", tenants=tenants)

        async def quotas() -> list[str]:
            text = await cluster.kubectl("get", "resourcequota", "--all-namespaces", "--output=name")
            return text.split()

        await eventually(quotas, ["resourcequota/gpusharing-quoted"])
        await eventually(lambda: operator.metric('gpusharing_writes_failing{kind="ResourceQuota"}'), 1.0)
        assert await operator.metric("gpusharing_settled") == 0
        assert await ready(operator)
        await they.make_node("n1")
        await eventually(lambda: they.winners("n1"), ["quoted"])
    await eventually(quotas, ["resourcequota/gpusharing-quoted"] * 2)
    await eventually(lambda: operator.metric('gpusharing_writes_failing{kind="ResourceQuota"}'), 0.0)
    await eventually(lambda: operator.metric("gpusharing_settled"), 1.0)


async def test_events_of_nonsense_are_not_asked_for_and_those_of_a_claim_are_recorded_once(
    operator: Operator, they: Everybody
) -> None:
    """Also by the operator that comes after this one."""
    await they.apply_policy("nowhere", nodes={"matchLabels": {"pool": "none"}})
    await eventually(lambda: they.ready_reason("nowhere"), "NoMatchingNodes")
    owner = {"apiVersion": "nosuch.example/v1", "kind": "Pod", "name": "UPPER case/../x", "uid": "u"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "nowhere-timeslicing"}}
    body = {"metadata": {"name": "odd", "ownerReferences": [owner]}, "spec": {"devices": {"requests": [request]}}}
    await they.api.create(RESOURCE_CLAIMS, body, "default")
    await eventually(lambda: they.told("odd"), ["Warning PolicyHasNoGpus"])
    assert await operator.metric('gpusharing_events_total{result="refused"}') == 0
    await operator.restart()
    await eventually(lambda: operator.metric('gpusharing_events_total{result="already_recorded"}'), 1.0)
    assert await they.told("odd") == ["Warning PolicyHasNoGpus"]
    assert await ready(operator)


async def test_a_deleted_policy_gets_one_event_with_the_number_of_claims(operator: Operator, they: Everybody) -> None:
    await they.make_node("n1")
    await they.apply_policy("leaving", offers=SHARED)
    await eventually(lambda: they.winners("n1"), ["leaving"])
    for number in range(5):
        await they.hold(f"c{number}", device="gpu-0-timeslicing")
    await eventually(lambda: operator.metric("gpusharing_settled"), 1.0)
    await they.delete_policy("leaving")

    async def notes() -> list[str]:
        found = [event for event in (await they.api.list(EVENTS))[0] if event["reason"] == "DeviceDraining"]
        return [event["note"] for event in found if event["regarding"]["kind"] == "SharingPolicy"]

    expected = "5 claims use devices no longer offered because of SharingPolicy leaving; the claims keep them"
    await eventually(notes, [expected])
