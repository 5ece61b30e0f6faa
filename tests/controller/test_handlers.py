"""Kopf with our handlers, before a real API server: as a program of Kopf's, and among objects that nobody expects."""

import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import kopf
import pytest
import pytest_asyncio

from agent.on_cluster import Admin
from building import DRIVER
from controller.bed import Everybody, Operator, eventually, everybody, install
from gpusharing.controller import handlers as handlers  # noqa: PLC0414 (Kopf knows them once they are imported)
from gpusharing.controller.watching.following import HANDLED
from gpusharing.core.cluster.quotas import quota_name
from harness.controlplane import ControlPlane
from harness.gpu_cluster import NAMESPACE
from harness.processes import Process

TENANTS: Final = {"namespaces": {"matchLabels": {"team": "a"}}, "quota": {"timeSlicing": 4}}
DEEP: Final = "[" * 5000 + "]" * 5000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: object) -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        yield control_plane


@pytest_asyncio.fixture
async def they(cluster: ControlPlane) -> AsyncIterator[Everybody]:
    async with everybody(cluster) as they:
        yield they
        await they.clean_up()


@pytest_asyncio.fixture
async def operator(cluster: ControlPlane) -> AsyncIterator[Operator]:
    async with await Operator.of(cluster) as operator:
        yield operator


def test_there_is_a_handler_for_each_kind_that_is_left_to_kopf() -> None:
    watching = kopf.get_default_registry()._watching.get_all_handlers()
    selectors = {handler.selector for handler in watching if handler.selector}
    found = {(selector.group, selector.version, selector.any_name) for selector in selectors}
    assert found == {(kind.group, kind.version, kind.plural) for kind in HANDLED}


@pytest.mark.cluster
async def test_kopf_runs_the_operator_for_who_develops_it(cluster: ControlPlane, they: Everybody) -> None:
    kubeconfig = await cluster.service_account_kubeconfig(NAMESPACE, "gpusharing-operator")
    argv = [sys.executable, "-m", "kopf", "run", "-m", "gpusharing.controller.handlers", "--all-namespaces"]
    log = cluster.directory / "logs" / "kopf-run.log"
    await they.make_node("n1")
    async with Process(argv, log=log, ready=None, env={**os.environ, "KUBECONFIG": str(kubeconfig)}):
        await eventually(lambda: they.winners("n1"), [None], within=30)
        await they.apply_policy("shared")
        await eventually(lambda: they.winners("n1"), ["shared"])
        await they.agent_acts("n1")
        await eventually(lambda: they.ready_reason("shared"), "Ready")


def claim_body(value: str) -> str:
    """With this raw JSON among its opaque parameters."""
    device_class = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    config = {"opaque": {"driver": DRIVER, "parameters": {"kind": "K", "apiVersion": "a/v1", "value": "VALUE"}}}
    body: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "hostile"},
    }
    body["spec"] = {"devices": {"requests": [device_class], "config": [config]}}
    return json.dumps(body).replace('"VALUE"', value)


def selectors_body() -> str:
    """0.9 MiB as it is stored, six times that as JSON: each `<` comes back as an escape."""
    expression = '"' + "<" * 9_900 + '" != device.driver'
    selectors = [{"cel": {"expression": expression}}] * 32
    request = {"deviceClassName": "gpu.nvidia.com", "selectors": selectors}
    requests = [{"name": f"r{number}", "exactly": request} for number in range(3)]
    return written({"devices": {"requests": requests}})


def written(spec: dict[str, Any]) -> str:
    identity = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "hostile"}}
    return json.dumps(identity | {"spec": spec})


HOSTILE: Final = {
    "deep": claim_body(DEEP).encode(),
    "no-utf-8": claim_body('"BYTES"').encode().replace(b"BYTES", b"\xff\xfe\xc3"),
    "half-a-character": claim_body('"\\ud800"').encode(),
    "keys-that-stand-twice": claim_body('{"a": 1, "a": 2}').encode(),
    "6-mib": selectors_body().encode(),
}


@pytest.mark.cluster
@pytest.mark.parametrize("what", HOSTILE)
async def test_no_claim_stops_the_watch_of_what_others_write(
    cluster: ControlPlane, they: Everybody, operator: Operator, what: str
) -> None:
    """It comes while Kopf watches, and goes."""
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    await they.make_node("n1")
    await eventually(lambda: they.winners("n1"), [None])
    async with Admin(cluster) as admin:
        await admin.call("POST", path, HOSTILE[what])

    # Claims, policies, classes, namespaces and quotas are heard of as before.
    await they.apply_policy("shared", tenants=TENANTS)
    await eventually(lambda: they.winners("n1"), ["shared"])
    await they.agent_acts("n1")
    uid = await they.hold("neighbour", device="gpu-0")
    await eventually(lambda: they.holders("n1"), {uid})
    await eventually(lambda: exists(cluster, "deviceclass/shared-timeslicing"), expected=True)
    await cluster.kubectl("delete", "deviceclass", "shared-timeslicing")
    await eventually(lambda: exists(cluster, "deviceclass/shared-timeslicing"), expected=True)
    await cluster.kubectl("create", "namespace", f"tenant-{what}")
    await cluster.kubectl("label", "namespace", f"tenant-{what}", "team=a")
    quota = f"resourcequota/{quota_name('shared')}", f"--namespace=tenant-{what}"
    await eventually(lambda: exists(cluster, *quota), expected=True)
    await cluster.kubectl("delete", *quota)
    await eventually(lambda: exists(cluster, *quota), expected=True)
    await cluster.kubectl("delete", "resourceclaim", "hostile")
    await eventually(lambda: operator.metric('gpusharing_objects{kind="ResourceClaim"}'), 1)
    assert operator.running
    assert not [line for line in operator.logged() if "watch" in line["event"] and line["level"] != "info"]


async def exists(cluster: ControlPlane, *what: str) -> bool:
    return bool((await cluster.kubectl("get", *what, "--ignore-not-found", "--output=name")).strip())
