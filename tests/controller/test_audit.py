"""What watches miss is found by lists."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import kopf
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from building import DRIVER
from controller.api_server import ApiServer
from controller.bed import Everybody, Operator, eventually, everybody, install, operating
from controller.test_listing import in_pages, node
from gpusharing.controller.watching import audit, following
from gpusharing.controller.watching.following import WATCHED
from gpusharing.controller.watching.listing import prime
from gpusharing.controller.watching.store import Store
from gpusharing.kube.kinds import NODES, RESOURCE_CLAIMS, SHARING_POLICIES
from gpusharing.kube.transport import Api
from harness.controlplane import ControlPlane
from harness.proxy import Proxy


@pytest.fixture
def store() -> Store:
    return Store(WATCHED, on_change=lambda *_, **__: None)


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
        await cluster.kubectl("delete", "resourceclaims", "--all")


async def test_what_was_deleted_unseen_is_forgotten(api: Api, store: Store, server: ApiServer) -> None:
    server.answer = in_pages([node(1)], [node(3)])
    for number in (1, 2, 3):
        store.apply(NODES, node(number))
    auditing = asyncio.create_task(audit.look(api, store, NODES))
    await asyncio.sleep(0)
    # What comes while the list is made is newer.
    store.apply(NODES, node(101))
    await auditing
    assert sorted(item.metadata.name for item in store.all(NODES)) == ["n1", "n101", "n3"]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_PERIOD", 0.5)
    monkeypatch.setattr(audit, "_LATE", 0.1)


@pytest.mark.cluster
async def test_a_look_finds_all_that_was_missed(
    cluster: ControlPlane, they: Everybody, store: Store, hasty: None
) -> None:
    for name in ("deleted", "changed", "same", "replaced"):
        await they.apply_policy(name)
    await prime(they.api, store, WATCHED)
    await they.delete_policy("deleted")
    await they.delete_policy("replaced")
    await they.apply_policy("replaced")
    await they.apply_policy("new")
    await they.api.merge_patch(SHARING_POLICIES, "changed", {"spec": {"priority": 7}})
    with capture_logs() as logs:
        await audit.look(they.api, store, SHARING_POLICIES)
    known = {policy.metadata.name: policy for policy in store.all(SHARING_POLICIES)}
    assert known == {name: await they.policy(name) for name in ("changed", "same", "replaced", "new")}
    assert sorted((entry["event"], entry["object"]) for entry in logs) == [
        ("missed change found", "changed"),
        ("missed change found", "new"),
        ("missed change found", "replaced"),
        ("missed deletion found", "deleted"),
        ("missed deletion found", "replaced"),
    ]


@pytest.mark.cluster
async def test_what_a_watch_tells_meanwhile_is_not_read_again(
    cluster: ControlPlane, they: Everybody, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists are ahead of watches for a moment, and behind them for another."""
    await they.apply_policy("late")

    async def told_meanwhile(_: float) -> None:
        await prime(they.api, store, [SHARING_POLICIES])

    monkeypatch.setattr(asyncio, "sleep", told_meanwhile)
    with capture_logs() as logs:
        await audit.look(they.api, store, SHARING_POLICIES)
    assert [entry["event"] for entry in logs] == ["objects listed"]


@pytest.mark.cluster
@pytest.mark.parametrize("value", ["[" * 4500 + "]" * 4500, '"\\ud800"'], ids=["deep", "half-a-character"])
async def test_a_hostile_claim_hides_no_other_from_it(
    cluster: ControlPlane, they: Everybody, store: Store, hasty: None, value: str
) -> None:
    parameters = {"kind": "K", "apiVersion": "a/v1", "value": "VALUE"}
    devices = {
        "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
        "config": [{"opaque": {"driver": DRIVER, "parameters": parameters}}],
    }
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "hostile", "annotations": {"a": "VALUE"}},
        "spec": {"devices": devices},
    }
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    in_a_string = value if value.startswith('"') else json.dumps(value)
    body = json.dumps(claim).replace('"a": "VALUE"', f'"a": {in_a_string}').replace('"VALUE"', value)
    await cluster.kubectl("create", f"--raw={path}", "--filename=-", stdin=body)
    await they.make_claim("neighbour")
    await audit.look(they.api, store, RESOURCE_CLAIMS)
    assert {claim.metadata.name for claim in store.all(RESOURCE_CLAIMS)} == {"hostile", "neighbour"}


@pytest.mark.cluster
async def test_without_any_watch_the_looks_now_and_then_are_enough(
    cluster: ControlPlane, they: Everybody, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def watch_nothing(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(kopf, "operator", watch_nothing)
    monkeypatch.setattr(following, "follow", watch_nothing)
    await they.make_node("n1")
    operator = await Operator.of(cluster)
    async with operating(operator.kubeconfig):
        await eventually(lambda: they.winners("n1"), [None])
        await they.apply_policy("shared")
        await eventually(lambda: they.winners("n1"), ["shared"])
        await they.delete_policy("shared")
        await eventually(lambda: they.winners("n1"), [None])
        await they.make_node("n2", gpus=2)
        await eventually(lambda: they.winners("n2"), [None, None])


CLAIMS: Final = 20


async def nothing(_: ControlPlane) -> None:
    """The watch can go on from where it was."""


async def restart(cluster: ControlPlane) -> None:
    """The API server forgets what it could tell a watch."""
    await cluster.apiserver.kill()
    await cluster.apiserver.start()


async def compact(cluster: ControlPlane) -> None:
    """Nor does etcd know any more what was: 410 Gone."""
    (etcd,) = (option.partition("=")[2] for option in cluster.etcd.argv if option.startswith("--advertise-client-urls"))
    async with aiohttp.ClientSession(etcd) as client:

        async def ask(path: str, **body: Any) -> Any:
            async with client.post(path, json=body) as answer:
                assert answer.status == 200
                return await answer.json()

        revision = (await ask("/v3/maintenance/status"))["header"]["revision"]
        await ask("/v3/kv/compaction", revision=revision, physical=True)
    await restart(cluster)


@pytest.mark.cluster
@pytest.mark.parametrize("meanwhile", [nothing, restart, compact])
async def test_deletions_while_the_watch_is_cut(
    cluster: ControlPlane, they: Everybody, meanwhile: Callable[[ControlPlane], Awaitable[None]]
) -> None:
    """What was deleted, and what came and went, while the operator could not see it."""
    async with Proxy(cluster.address, urlsplit(cluster.url).port or 0) as wire:
        # Longer than all of this: the leader shall have to find out, not a new one.
        operator = await Operator.of(cluster, "--lease-duration=120", log=f"cut-{meanwhile.__name__}")
        operator.kubeconfig.write_text(
            operator.kubeconfig.read_text().replace(cluster.url, f"https://{cluster.address}:{wire.port}")
        )
        async with operator:
            await they.make_node("n1")
            await they.apply_policy("shared")
            await eventually(lambda: they.winners("n1"), ["shared"])
            await they.agent_acts("n1")
            uids = [await they.hold(f"claim-{number}", device="gpu-0-timeslicing") for number in range(CLAIMS)]
            await eventually(lambda: they.holders("n1"), set(uids))

            await wire.cut()
            for number in range(1, CLAIMS):
                await cluster.kubectl("delete", "resourceclaim", f"claim-{number}", "--wait=false")
            await they.make_claim("short-lived")
            await cluster.kubectl("delete", "resourceclaim", "short-lived")
            latecomer = await they.hold("latecomer", device="gpu-0-timeslicing")
            await meanwhile(cluster)
            await wire.mend()

            await eventually(lambda: they.holders("n1"), {uids[0], latecomer})
            assert await operator.metric('gpusharing_objects{kind="ResourceClaim"}') == 2
            assert operator.running
