"""The operator as it runs in a cluster: its program, its rights, a real API server."""

import asyncio
import dataclasses
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import pytest
import pytest_asyncio

from building import DRIVER
from building.from_nothing import decide
from building.snapshot import snapshot
from controller import bed
from controller.bed import Everybody, Operator, eventually, everybody, install
from gpusharing.api.meta import ConditionStatus
from gpusharing.controller.event_recorder import EventRecorder
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.watching import guards, listing
from gpusharing.controller.watching.following import WATCHED
from gpusharing.controller.watching.store import Store
from gpusharing.controller.writer import Writer
from gpusharing.kube import client_credentials
from gpusharing.kube.credentials import Credentials
from gpusharing.kube.events import Events
from gpusharing.kube.kinds import (
    DEVICE_TAINT_RULES,
    LEASES,
    NODE_SHARINGS,
    NODES,
    RESOURCE_CLAIMS,
    SHARING_POLICIES,
    Kind,
)
from gpusharing.kube.transport import Api, ApiError, open_session
from harness.controlplane import ControlPlane
from harness.gpu_cluster import NAMESPACE
from harness.processes import Process

pytestmark = pytest.mark.cluster

UNTYPED_POLICIES: Kind[Any] = Kind("gpusharing.dev/v1alpha1", "SharingPolicy", "sharingpolicies", dict[str, Any])


AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "Metadata", "users": [f"system:serviceaccount:{NAMESPACE}:gpusharing-operator"]}],
    "omitStages": ["RequestReceived"],
}


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each request of the operator, a line each."""
    return tmp_path_factory.mktemp("audit") / "log"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: object, audit_log: Path) -> AsyncIterator[ControlPlane]:
    policy = audit_log.with_name("policy")
    policy.write_text(json.dumps(AUDIT_POLICY))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}"]
    async with ControlPlane(apiserver_flags=flags) as control_plane:
        await install(control_plane)
        yield control_plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: ControlPlane) -> AsyncIterator[Operator]:
    # Tests end its API server, which on a busy machine takes its time to come back.
    async with await Operator.of(cluster, "--lease-duration=60") as operator:
        yield operator


@pytest_asyncio.fixture
async def they(cluster: ControlPlane) -> AsyncIterator[Everybody]:
    async with everybody(cluster) as they:
        yield they
        await they.clean_up()


async def crash(process: Process) -> None:
    await process.kill()
    await process.start()


async def test_a_policy_is_resolved_reported_and_taken_back(operator: Operator, they: Everybody) -> None:
    await they.make_node("n1", gpus=2, labels={"pool": "a"})
    await they.make_node("n2", gpus=1)
    await eventually(lambda: they.winners("n1"), [None, None])
    await they.apply_policy("shared", nodes={"matchLabels": {"pool": "a"}}, gpus={"maxPerNode": 1})
    await eventually(lambda: they.winners("n1"), ["shared", None])
    await eventually(lambda: they.winners("n2"), [None])
    await eventually(lambda: they.ready_reason("shared"), "WaitingForNodes")

    await they.agent_acts("n1")
    await eventually(lambda: they.ready_reason("shared"), "Ready")
    policy = await they.policy("shared")
    assert policy.status.observed_generation == policy.metadata.generation
    assert policy.status.gpus is not None
    assert (policy.status.gpus.won, policy.status.gpus.lost) == (1, 0)

    await they.delete_policy("shared")
    await eventually(lambda: they.winners("n1"), [None, None])
    assert all(gpu.offers is None for gpu in (await they.sharing("n1")).spec.gpus)


async def test_what_others_put_on_a_node_sharing_stays(operator: Operator, they: Everybody) -> None:
    await they.make_node("n1")
    await eventually(lambda: they.winners("n1"), [None])
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/f"]}
    before = await they.api.merge_patch(NODE_SHARINGS, "n1", {"metadata": metadata})
    await they.apply_policy("shared")
    await eventually(lambda: they.winners("n1"), ["shared"])
    after = (await they.sharing("n1")).metadata
    assert after.for_update() | {"resourceVersion": ""} == before.metadata.for_update() | {"resourceVersion": ""}
    await they.api.merge_patch(NODE_SHARINGS, "n1", {"metadata": {"finalizers": None}})


async def test_events_are_told_only_when_ready_changes(operator: Operator, they: Everybody) -> None:
    await they.apply_policy("told", nodes={"matchLabels": {"pool": "told"}})
    await eventually(lambda: they.told("told"), ["Warning NoMatchingNodes"])
    await they.make_node("n1", labels={"pool": "told"})
    await eventually(lambda: they.ready_reason("told"), "WaitingForNodes")
    await they.agent_acts("n1")
    await eventually(lambda: they.told("told"), ["Warning NoMatchingNodes", "Normal Ready"])
    # Another spec, another generation, and Ready throughout or not: each change once.
    first = await they.ready("told")
    assert first is not None
    assert first.status is ConditionStatus.TRUE
    await they.api.merge_patch(SHARING_POLICIES, "told", {"metadata": {"labels": {"unrelated": "yes"}}})
    await they.api.merge_patch(NODES, "n1", {"metadata": {"labels": {"unrelated": "yes"}}})
    await asyncio.sleep(1)
    assert await they.ready("told") == first
    assert await they.told("told") == ["Warning NoMatchingNodes", "Normal Ready"]


async def test_nothing_is_written_while_only_unrelated_things_change(operator: Operator, they: Everybody) -> None:
    await they.make_node("n1")
    await they.apply_policy("untouched")
    await eventually(lambda: they.winners("n1"), ["untouched"])
    await they.agent_acts("n1")
    await eventually(lambda: they.ready_reason("untouched"), "Ready")
    before = await versions(they, "untouched")
    decisions = await operator.metric('gpusharing_decisions_total{result="succeeded"}')
    until, number = time.monotonic() + 3, 0
    while time.monotonic() < until:
        claim = await they.make_claim(f"churn-{number}")
        patch = {"metadata": {"annotations": {"touched": str(number)}}}
        await they.api.merge_patch(RESOURCE_CLAIMS, claim.metadata.name, patch, namespace="default")
        await they.api.merge_patch(NODES, "n1", {"metadata": {"labels": {"touched": str(number)}}})
        number += 1
        await asyncio.sleep(0.02)
    assert await operator.metric('gpusharing_decisions_total{result="succeeded"}') > decisions + 3
    assert await versions(they, "untouched") == before


async def versions(they: Everybody, name: str) -> list[str]:
    """Of a policy whose name is nobody else's: the class of one that has gone may be there for a while."""
    sharing, policy = await they.sharing("n1"), await they.policy(name)
    return [sharing.metadata.resource_version, policy.metadata.resource_version, *await they.told(name)]


async def test_it_asks_for_nothing_that_it_may_not_have(operator: Operator, they: Everybody, audit_log: Path) -> None:
    """Nor does Kopf: it lists and watches what it is told to, and reads which kinds there are."""
    await they.make_node("n1")
    await they.apply_policy("audited")
    await eventually(lambda: they.ready_reason("audited"), "WaitingForNodes")
    await eventually(lambda: they.told("audited"), ["Normal WaitingForNodes"])
    asked = [json.loads(line) for line in audit_log.read_text().splitlines()]  # noqa: ASYNC240
    refused = [request["requestURI"] for request in asked if request["responseStatus"]["code"] in {401, 403}]
    assert refused == []
    on_objects = {
        (request["verb"], "/".join(filter(None, (reference["resource"], reference.get("subresource")))))
        for request in asked
        if (reference := request.get("objectRef")) and reference["resource"] != "leases"
    }
    # Classes that deleted policies of other tests have left may be taken over, if they are not collected yet.
    assert on_objects - {("patch", "deviceclasses")} == {
        *itertools.product(["list", "watch"], [kind.plural for kind in (*WATCHED, DEVICE_TAINT_RULES)]),
        *itertools.product(["get", "list", "watch"], [kind.plural for kind in guards.KINDS]),
        ("create", "deviceclasses"),
        ("update", "nodesharings"),
        ("patch", "sharingpolicies/status"),
        ("create", "events"),
    }


async def test_a_kill_loses_nothing_and_repeats_nothing(operator: Operator, they: Everybody) -> None:
    await they.make_node("n1", gpus=2)
    await they.apply_policy("stays")
    await they.apply_policy("goes", priority=1, gpus={"maxPerNode": 1})
    await eventually(lambda: they.winners("n1"), ["goes", "stays"])
    await they.agent_acts("n1")
    await eventually(lambda: they.ready_reason("stays"), "Ready")
    told = await they.told("stays")

    await operator.kill()
    await they.delete_policy("goes")
    await they.make_node("n2")
    # Who is killed cannot give its lease back, and the next one would wait for a minute.
    free = {"spec": {"holderIdentity": ""}}
    await they.api.merge_patch(LEASES, "gpusharing-operator", free, namespace=NAMESPACE)
    await operator.start()
    await eventually(lambda: they.winners("n1"), ["stays", "stays"])
    await eventually(lambda: they.winners("n2"), ["stays"])
    await they.agent_acts("n1")
    await they.agent_acts("n2")
    await eventually(lambda: they.ready_reason("stays"), "Ready")
    # Ready went and came once more; nothing before it was told again.
    assert (await they.told("stays"))[: len(told)] == told


async def test_a_restart_writes_nothing(operator: Operator, they: Everybody) -> None:
    await they.make_node("n1")
    await they.apply_policy("restarted")
    await eventually(lambda: they.winners("n1"), ["restarted"])
    await they.agent_acts("n1")
    await eventually(lambda: they.ready_reason("restarted"), "Ready")
    before = await versions(they, "restarted")
    await operator.restart()
    await asyncio.sleep(1)
    assert await versions(they, "restarted") == before


async def test_sigterm_ends_it_cleanly(operator: Operator, they: Everybody) -> None:
    """And soon: who is not, is killed, and says no more."""
    await they.make_node("n1")
    await eventually(lambda: they.winners("n1"), [None])
    async with aiohttp.ClientSession() as session:
        # A probe's connection that is kept open must not hold it up.
        async with session.get(f"{operator.url}/healthz") as response:
            assert response.status == 200
        pid = operator.pid
        await operator.stop()
    assert "stopped" in [entry["event"] for entry in operator.logged()]
    assert not [entry for entry in operator.logged() if entry["level"] in {"error", "critical"}]
    await operator.start()
    assert operator.pid != pid


async def test_sigterm_ends_it_as_well_while_much_is_going_on(
    cluster: ControlPlane, operator: Operator, they: Everybody
) -> None:
    """At the beginning, when everything that there is comes in at once."""
    await operator.stop()
    for number in range(200):
        await they.make_claim(f"crowd-{number}")
    for pause in (0.0, 0.05, 0.1, 0.15):
        hasty = await Operator.of(cluster, log=f"hasty-{pause}")
        await hasty.start()
        await asyncio.sleep(pause)
        await hasty.stop()
        assert "stopped" in [entry["event"] for entry in hasty.logged()]
        assert not [entry for entry in hasty.logged() if entry["level"] in {"error", "critical"}]
    await operator.start()


async def test_an_object_that_cannot_be_read_stops_nothing(
    cluster: ControlPlane, operator: Operator, they: Everybody
) -> None:
    name = "sharingpolicies.gpusharing.dev"
    definition = json.loads(await cluster.kubectl("get", "crd", name, "--output=json"))
    path = "/spec/versions/0/schema/openAPIV3Schema"

    async def set_schema(schema: Any) -> None:
        patch = [{"op": "replace", "path": path, "value": schema}]
        await cluster.kubectl("patch", "crd", name, "--type=json", f"--patch={json.dumps(patch)}")

    async def is_accepted() -> bool:
        body = {"metadata": {"name": "unreadable"}, "spec": {"offers": {"timeSlicing": {"maxClients": "many"}}}}
        try:
            await they.api.create(UNTYPED_POLICIES, body)
        except ApiError:
            return False
        return True

    async def times_named() -> int:
        return [entry.get("object") for entry in operator.logged() if entry["level"] == "error"].count("unreadable")

    await set_schema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    try:
        # The new schema takes a moment to be in force.
        await eventually(is_accepted, expected=True)
        await eventually(times_named, 1)
        await they.make_node("n1")
        await they.apply_policy("readable")
        await eventually(lambda: they.winners("n1"), ["readable"])
        # When it came, not each time that something is decided.
        assert await times_named() == 1
        assert await operator.metric('gpusharing_unreadable_objects_total{kind="SharingPolicy"}') == 1
        # Nor does it stop a start.
        await operator.restart()
        await they.delete_policy("readable")
        await eventually(lambda: they.winners("n1"), [None])
    finally:
        await cluster.kubectl("delete", "sharingpolicies", "--all")
        await set_schema(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


# Numbers that are no float64 are refused by the API server.
@pytest.mark.parametrize("value", ["[" * 4500 + "]" * 4500, '"\\ud800"'], ids=["deep", "half-a-character"])
async def test_what_anybody_may_write_into_a_claim_hides_no_other(
    cluster: ControlPlane, operator: Operator, they: Everybody, value: str, request: pytest.FixtureRequest
) -> None:
    """The API server keeps opaque parameters as they come, and Kopf reads every claim."""
    name = f"hostile-{request.node.callspec.id}"
    parameters = {"kind": "K", "apiVersion": "a/v1", "value": "VALUE"}
    devices = {
        "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
        "config": [{"opaque": {"driver": DRIVER, "parameters": parameters}}],
    }
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": devices},
    }

    async def claims() -> float:
        return await operator.metric('gpusharing_objects{kind="ResourceClaim"}')

    before, pid = await claims(), operator.pid
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    body = json.dumps(claim).replace('"VALUE"', value)
    await cluster.kubectl("create", f"--raw={path}", "--filename=-", stdin=body)
    await they.make_claim(f"{name}-neighbour")
    await eventually(claims, before + 2)
    assert operator.pid == pid
    # In a list as well.
    await operator.restart()
    await they.make_claim(f"{name}-latecomer")
    await eventually(claims, before + 3)
    await cluster.kubectl("delete", "resourceclaim", name)
    await eventually(claims, before + 2)


async def test_it_outlives_its_api_server(cluster: ControlPlane, operator: Operator, they: Everybody) -> None:
    await they.make_node("n1")
    await eventually(lambda: they.winners("n1"), [None])
    pid = operator.pid
    await crash(cluster.apiserver)
    await they.apply_policy("shared")
    await eventually(lambda: they.winners("n1"), ["shared"])
    assert operator.running
    assert operator.pid == pid


async def test_a_conflict_is_left_to_the_next_decision(
    cluster: ControlPlane, operator: Operator, they: Everybody
) -> None:
    """With the operator's parts in the test's hands, so that the store is behind for sure."""
    await operator.stop()
    await they.make_node("n1")
    await they.apply_policy("shared")
    credentials = await client_credentials.load(operator.kubeconfig)
    async with open_session(credentials) as session:
        api, metrics = Api(session, credentials.server, user_agent="test"), Metrics()
        store = Store((*WATCHED, *guards.KINDS), on_change=lambda *_, **__: None)
        recorder = EventRecorder(Events(api, controller="test", instance="test"), metrics)
        writer = Writer(api, store, recorder, metrics, undecided_for=lambda: 0.0)
        task = asyncio.create_task(writer.run())
        await listing.prime(api, store, WATCHED)
        await they.api.merge_patch(NODE_SHARINGS, "n1", {"metadata": {"labels": {"moved": "on"}}})

        async def results() -> list[str]:
            lines = metrics.exposition().decode().splitlines()
            return [line for line in lines if line.startswith("gpusharing_intents_total") and "ReplaceSpec" in line]

        def expected(**counts: int) -> list[str]:
            return [
                f'gpusharing_intents_total{{kind="ReplaceSpec",result="{result}"}} {counts.get(result, 0)}.0'
                for result in ("written", "conflict", "failed")
            ]

        writer.want(decide(snapshot(store), now="2026-11-18T12:00:00Z"))
        await eventually(results, expected(conflict=1))
        assert await they.winners("n1") == []

        await listing.prime(api, store, WATCHED)
        writer.want(decide(snapshot(store), now="2026-11-18T12:00:00Z"))
        await eventually(results, expected(conflict=1, written=1))
        assert await they.winners("n1") == ["shared"]
        await eventually(lambda: they.ready_reason("shared"), "WaitingForNodes")
        await listing.prime(api, store, WATCHED)
        writer.want(decide(snapshot(store), now="2026-11-18T13:00:00Z"))
        assert writer.is_settled
        task.cancel()
        await asyncio.wait([task])
    await operator.start()


@asynccontextmanager
async def operating(operator: Operator) -> AsyncIterator[None]:
    """In the test's own process, in the place of the other."""
    await operator.stop()
    async with bed.operating(operator.kubeconfig):
        yield
    await operator.start()


async def test_what_is_deleted_before_kopf_begins_to_watch_is_noticed(
    operator: Operator, they: Everybody, monkeypatch: pytest.MonkeyPatch
) -> None:
    await they.make_node("n1")
    await they.apply_policy("shared")
    await eventually(lambda: they.winners("n1"), ["shared"])
    held_back, run = asyncio.Event(), kopf.operator

    async def run_later(**arguments: Any) -> None:
        await held_back.wait()
        await run(**arguments)

    monkeypatch.setattr(kopf, "operator", run_later)
    await operator.stop()
    await they.api.merge_patch(NODE_SHARINGS, "n1", {"spec": {"gpus": []}})
    async with operating(operator):
        # This needs its own list, so that it is over when the policy goes.
        await eventually(lambda: they.winners("n1"), ["shared"])
        await they.delete_policy("shared")
        held_back.set()
        await eventually(lambda: they.winners("n1"), [None])


async def test_rejected_credentials_are_renewed(
    cluster: ControlPlane, operator: Operator, they: Everybody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server forgets who we are while all watches break; then it knows us again."""
    real, is_known = client_credentials.load, True

    async def load(kubeconfig: Path | None) -> Credentials:
        good = await real(kubeconfig)

        async def authorization() -> str | None:
            return await good.authorization() if is_known else "Bearer unknown"

        return dataclasses.replace(good, authorization=authorization)

    monkeypatch.setattr(client_credentials, "load", load)
    async with operating(operator):
        await they.make_node("n1")
        await eventually(lambda: they.winners("n1"), [None])
        is_known = False
        await crash(cluster.apiserver)
        await asyncio.sleep(3)
        is_known = True
        await they.apply_policy("shared")
        await eventually(lambda: they.winners("n1"), ["shared"])


async def test_too_old_a_kubernetes_is_refused(toolchain: object) -> None:
    async with ControlPlane(emulated_version="1.35") as old:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gpusharing", "operator", "--kubeconfig", old.kubeconfig, "--listen", "127.0.0.1:0",
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, errors = await program.communicate()
        assert program.returncode == 1
        assert "is Kubernetes 1.35 (v1.37" in json.loads(errors.splitlines()[-1])["error"]
