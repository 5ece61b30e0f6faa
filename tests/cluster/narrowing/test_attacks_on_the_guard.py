"""What the closing guard is for, on the real scheduler, which writes to another API server than everybody else: a
decision of before must not be stored once the GPU is offered otherwise."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from agent.on_cluster import RESOURCE, GpuNode
from cluster.narrowing.bed import EXCLUSIVE, WHOLE, Bed, Wish, Workload
from gpusharing.api.core import EndpointSlice
from gpusharing.api.meta import ObjectMeta
from gpusharing.api.sharing.node_spec import IDLE_WAIT
from gpusharing.controller.dry_runs import TAKEN_OVER_WITHIN, DryRuns
from gpusharing.controller.seen_guards import SeenGuards
from gpusharing.controller.seen_tenants import SeenTenants
from gpusharing.controller.watching.store import Store
from gpusharing.core.cluster.guards import closing_upkeep
from gpusharing.core.cluster.guards.claims import CLAIMS
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.cluster.guards.upkeep import REQUIRED, entries_of
from gpusharing.core.state.seen_entries import SeenEntries
from gpusharing.kube import client_credentials
from gpusharing.kube.kinds import (
    ADMISSION_BINDINGS,
    ADMISSION_POLICIES,
    ENDPOINT_SLICES,
    RESOURCE_CLAIMS,
    Kind,
)
from gpusharing.kube.transport import Api, ApiError, open_session
from harness.eventually import eventually
from harness.workloads import policy

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

TENANTS: Final = {"team": "search"}
GUARD: Final = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{CLOSING}"
POLICIES: Final = "/apis/gpusharing.dev/v1alpha1/sharingpolicies"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def a_bed(toolchain: object) -> AsyncIterator[Bed]:
    async with Bed(taken_wait=60, idle_wait=IDLE_WAIT, with_second_apiserver=True) as bed:
        await bed.admin.merge("/api/v1/namespaces/default", {"metadata": {"labels": TENANTS}})
        await bed.device_class("foreign", 'device.attributes["gpu.nvidia.com"].type == "gpu"')
        yield bed


@pytest_asyncio.fixture(loop_scope="module")
async def bed(a_bed: Bed) -> AsyncIterator[Bed]:
    yield a_bed
    a_bed.proxy.slices.release()
    a_bed.allocations.wrong.clear()
    await a_bed.admin.call("DELETE", f"{POLICIES}/reserved", absent=True)
    for kind in ("/api/v1/namespaces/default/pods", f"{RESOURCE}/namespaces/default/resourceclaims"):
        await a_bed.admin.call("DELETE", kind, {"gracePeriodSeconds": 0})


async def reserve(bed: Bed) -> Workload:
    """The GPU for tenants, and one of them who wants it."""
    tenants = {"namespaces": {"matchLabels": dict(TENANTS)}}
    await bed.admin.call("POST", POLICIES, policy("reserved", offers=EXCLUSIVE, tenants=tenants))
    return await bed.start(Wish("reserved-exclusive"))


async def is_open_to_all(node: GpuNode) -> None:
    async def check() -> None:
        devices = await node.devices_by_pool()
        assert [name for name in devices if "taints" not in devices[name]] == [f"{node.name}/gpu-0"]

    await eventually(check)


def seen_revisions(bed: Bed) -> set[str]:
    """Of the guard, those that the operator has seen to hold."""
    log = bed.control_plane.directory / "logs" / "operator.log"
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return {str(line["revision"]) for line in lines if line["event"] == "closing guard in force"}


async def is_told_why(bed: Bed, workload: Workload) -> None:
    async def check() -> None:
        pod: Any = await bed.admin.call("GET", workload.pod)
        messages = [condition.get("message", "") for condition in pod["status"].get("conditions", ())]
        assert any("is being withdrawn" in message for message in messages), messages

    await eventually(check)


class WithAddresses(Api):
    """Knows the address of each API server. No EndpointSlice may have these, as they are of the loopback."""

    ports: tuple[int, ...] = ()

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        if kind is not ENDPOINT_SLICES:
            return await super().get(kind, name, namespace)
        endpoints = ({"addresses": [urlsplit(self._server).hostname]},)
        ports = tuple({"name": "https", "port": port} for port in self.ports)
        return EndpointSlice(metadata=ObjectMeta(name=name, namespace=namespace), endpoints=endpoints, ports=ports)


async def test_api_servers_of_which_each_has_an_address_are_asked_and_not_waited_for(bed: Bed) -> None:
    credentials = await client_credentials.load(bed.control_plane.kubeconfig)
    async with bed.node() as node, open_session(credentials) as session:
        await is_open_to_all(node)
        api = WithAddresses(session, credentials.server, user_agent="gpusharing-tests")
        api.ports = (bed.control_plane.port, bed.control_plane.second_port)
        store = Store((ADMISSION_POLICIES, ADMISSION_BINDINGS, RESOURCE_CLAIMS), on_change=lambda *_, **__: None)
        store.apply_named(ADMISSION_BINDINGS, CLOSING, await api.get(ADMISSION_BINDINGS, CLOSING))
        before = closing_upkeep.read(await api.get(ADMISSION_POLICIES, CLOSING)).revision
        seen = asyncio.get_running_loop().create_future()
        guards = SeenGuards(api, store, DryRuns(api, namespace="default"), on_seen=seen.set_result)
        await reserve(bed)

        async def is_written() -> None:
            guard = await api.get(ADMISSION_POLICIES, CLOSING)
            assert closing_upkeep.read(guard).revision > before
            store.apply_named(ADMISSION_POLICIES, CLOSING, guard)

        await eventually(is_written)
        began = time.monotonic()
        guards.look()
        looking = asyncio.create_task(guards.run())
        try:
            assert node.name in await seen
            print(f"seen on two API servers after {time.monotonic() - began:.1f} s")
            assert time.monotonic() - began < TAKEN_OVER_WITHIN
        finally:
            looking.cancel()


async def test_what_is_seen_of_the_guards_of_tenants_holds_on_each_api_server(bed: Bed) -> None:
    credentials = await client_credentials.load(bed.control_plane.kubeconfig)
    async with open_session(credentials) as session:
        api = WithAddresses(session, credentials.server, user_agent="gpusharing-tests")
        api.ports = (bed.control_plane.port, bed.control_plane.second_port)
        store = Store((ADMISSION_POLICIES, ADMISSION_BINDINGS), on_change=lambda *_, **__: None)
        told: asyncio.Queue[SeenEntries] = asyncio.Queue()
        tenants = SeenTenants(store, DryRuns(api, namespace="default"), on_seen=told.put_nowait)
        body = policy("both", offers=EXCLUSIVE, tenants={"namespaces": {"matchLabels": {"team": "both"}}})
        await bed.admin.call("POST", POLICIES, body)

        async def is_written() -> None:
            for name in REQUIRED:
                guard = await api.get(ADMISSION_POLICIES, name)
                assert "both" in {entry.key for entry in entries_of(guard)}
                store.apply_named(ADMISSION_POLICIES, name, guard)
                store.apply_named(ADMISSION_BINDINGS, name, await api.get(ADMISSION_BINDINGS, name))

        await eventually(is_written)
        tenants.look()
        looking = asyncio.create_task(tenants.run())
        try:
            async with asyncio.timeout(30):
                while "both" not in {entry.key for entry in (await told.get())[CLAIMS]}:
                    pass
            request = {"name": "gpu", "exactly": {"deviceClassName": "both-exclusive"}}
            claim = {"metadata": {"name": "strangers"}, "spec": {"devices": {"requests": [request]}}}
            host = urlsplit(credentials.server).hostname
            for port in api.ports:
                with pytest.raises(ApiError, match="is not one of its tenants"):
                    await api.at(f"https://{host}:{port}").try_create(RESOURCE_CLAIMS, claim, "default")
        finally:
            looking.cancel()
            await bed.admin.call("DELETE", f"{POLICIES}/both")


async def test_a_decision_that_was_on_its_way_is_refused_when_it_comes(bed: Bed) -> None:
    async with bed.node() as node:
        await is_open_to_all(node)
        held = bed.proxy.hold_next_allocation()
        early = await bed.start(WHOLE)
        await held.is_decided.wait()
        tenant = await reserve(bed)
        await bed.gets(tenant, "gpu-0")
        held.may_go.set()
        await is_told_why(bed, early)
        assert await bed.device(early) is None
        assert bed.allocations.wrong == []


async def test_a_scheduler_that_hears_of_slices_late_is_refused(bed: Bed) -> None:
    async with bed.node() as node:
        await is_open_to_all(node)
        # It has to have seen the GPU.
        first = await bed.start(WHOLE)
        await bed.gets(first, "gpu-0")
        await bed.ends(first)
        bed.proxy.slices.hold()
        tenant = await reserve(bed)

        async def has_moved() -> None:
            devices = await node.devices_by_pool()
            assert [name for name in devices if "taints" not in devices[name]] == [f"{node.name}/reserved/gpu-0"]

        await eventually(has_moved)
        late = await bed.start(WHOLE)
        await is_told_why(bed, late)
        bed.proxy.slices.release()
        await bed.gets(tenant, "gpu-0")
        assert await bed.device(late) is None
        assert bed.allocations.wrong == []


async def test_what_tolerates_everything_does_not_get_what_is_closing(bed: Bed) -> None:
    async with bed.node() as node:
        await is_open_to_all(node)
        holder = await bed.start(WHOLE)
        await bed.runs(holder, "gpu-0", on=node)
        tenant = await reserve(bed)

        async def is_closed() -> None:
            guard = await bed.admin.call("GET", GUARD)
            (closed,) = [one["expression"] for one in guard["spec"]["variables"] if one["name"] == "closed"]
            (revision,) = [one["expression"] for one in guard["spec"]["variables"] if one["name"] == "revision"]
            assert f'"{node.name}": ' in closed
            assert revision.strip("'") in seen_revisions(bed)

        await eventually(is_closed)
        tolerant = await bed.start(Wish("foreign", tolerates=True))
        await bed.ends(holder, on=node)
        await bed.gets(tenant, "gpu-0")
        assert await bed.device(tolerant) is None
        assert bed.allocations.wrong == []


async def test_what_comes_back_within_the_hour_goes_to_those_who_waited_and_not_to_a_decision_of_before(
    bed: Bed,
) -> None:
    """A policy is edited, and reverted at once."""
    async with bed.node() as node:
        await is_open_to_all(node)
        held = bed.proxy.hold_next_allocation()
        early = await bed.start(WHOLE)
        await held.is_decided.wait()
        tenant = await reserve(bed)
        await bed.gets(tenant, "gpu-0")
        waiting = await bed.start(WHOLE)
        await bed.waits(waiting, seconds=1)
        await bed.admin.call("DELETE", f"{POLICIES}/reserved")
        await bed.ends(tenant)
        await bed.gets(waiting, "gpu-0r1")
        held.may_go.set()
        await is_told_why(bed, early)
        # With another name the same GPU is there, once.
        assert await bed.device(early) is None
        await bed.ends(waiting)
        await bed.gets(early, "gpu-0r1")
        assert bed.allocations.wrong == []
