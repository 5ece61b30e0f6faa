"""When the operator takes the closing guard to hold: API servers are played."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from building.guards import bound, installed
from gpusharing.api.core import EndpointSlice
from gpusharing.api.meta import Identity, ObjectMeta
from gpusharing.controller import dry_runs, seen_guards
from gpusharing.controller.dry_runs import DryRuns
from gpusharing.controller.seen_guards import SeenGuards
from gpusharing.controller.watching.store import Store
from gpusharing.core.cluster.guards.closing import CLOSED, CLOSING
from gpusharing.core.state.fence import Closed, Fence
from gpusharing.kube.kinds import ADMISSION_BINDINGS, ADMISSION_POLICIES, RESOURCE_CLAIMS
from gpusharing.kube.transport import ApiError, UnreachableError
from harness.eventually import eventually

RECORD = Closed("2026-11-18T12:00:00Z", ("0",))
MAIN = "https://main"


class Servers:
    """By URL, the revision that each goes by; None: it cannot be reached."""

    def __init__(self, *others: str) -> None:
        self.revisions: dict[str, int | None] = dict.fromkeys((MAIN, *others), 0)
        self.addresses = [{"addresses": [url.removeprefix("https://")]} for url in others]
        self.leases: int | None = None
        """Of API servers; None: they cannot be read."""
        self.claims: list[Identity] = []
        self.lists = 0


class Server:
    """What of an `Api` is used."""

    def __init__(self, servers: Servers, url: str = MAIN) -> None:
        self.servers = servers
        self.url = url

    def at(self, url: str) -> "Server":
        return Server(self.servers, url.removesuffix(":6443"))

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        if kind.kind == RESOURCE_CLAIMS.kind:
            raise ApiError("GET", name, 404, "NotFound", "gone")
        ports = ({"name": "https", "port": 6443},)
        metadata = ObjectMeta(name=name, namespace=namespace)
        return EndpointSlice(metadata=metadata, endpoints=tuple(self.servers.addresses), ports=ports)

    async def get_json(self, path: str) -> Any:
        assert path.startswith("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=")
        if self.servers.leases is None:
            raise ApiError("GET", path, 403, "Forbidden", "no")
        return {"items": [{}] * self.servers.leases}

    async def try_create(self, _kind: Any, body: Mapping[str, Any], _namespace: str) -> None:
        assert body["metadata"] == {"name": "gpusharing-closing-probe", "namespace": "here"}
        revision = self.servers.revisions[self.url]
        if revision is None:
            raise UnreachableError("no answer")
        if revision:
            message = f"ValidatingAdmissionPolicy denied request: {CLOSING} holds as of revision {revision}"
            raise ApiError("POST", "leases", 403, "Forbidden", message)

    async def identities(self, _kind: Any) -> tuple[list[Identity], str]:
        self.servers.lists += 1
        return self.servers.claims, "9"


@asynccontextmanager
async def looking(servers: Servers) -> AsyncIterator[list[Fence]]:
    seen: list[Fence] = []
    store = Store((ADMISSION_POLICIES, ADMISSION_BINDINGS, RESOURCE_CLAIMS), on_change=lambda *_, **__: None)
    api: Any = Server(servers)
    guards = SeenGuards(api, store, DryRuns(api, namespace="here"), on_seen=seen.append)
    guard = installed()[CLOSING]
    texts = {CLOSED: f'{{\n"n1": [["{RECORD.since}", "", "0"]]\n}}', "revision": "'7'"}
    variables = [{**one, "expression": texts.get(one["name"], one["expression"])} for one in guard.spec["variables"]]
    store.apply_named(
        ADMISSION_POLICIES, CLOSING, dataclasses.replace(guard, spec=guard.spec | {"variables": variables})
    )
    store.apply_named(ADMISSION_BINDINGS, CLOSING, bound()[CLOSING])
    task = asyncio.create_task(guards.run())
    guards.look()
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def is_seen(seen: list[Fence]) -> None:
    async def check() -> None:
        assert seen == [{"n1": (RECORD,)}]

    await eventually(check)


async def test_each_api_server_has_to_go_by_it_and_claims_are_read_after_that() -> None:
    servers = Servers("https://a", "https://b")
    async with looking(servers) as seen:
        servers.revisions |= {MAIN: 7, "https://a": 7, "https://b": 6}
        await asyncio.sleep(5 * dry_runs._ASK_EVERY)
        assert (seen, servers.lists) == ([], 0)
        # A later one is as good.
        servers.revisions["https://b"] = 8
        await is_seen(seen)
        assert servers.lists == 1


@pytest.mark.parametrize("others", [(), ("https://a",)], ids=["no address is known", "it may be a load balancer's"])
@pytest.mark.parametrize("leases", [None, 0, 2])
async def test_what_it_cannot_see_it_waits_for(
    others: tuple[str, ...], leases: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_runs, "TAKEN_OVER_WITHIN", 1.0)
    servers = Servers(*others)
    servers.leases = leases
    servers.revisions = dict.fromkeys(servers.revisions, 7)
    async with looking(servers) as seen:
        await asyncio.sleep(0.5)
        assert seen == []
        await is_seen(seen)


async def test_where_there_is_one_api_server_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_runs, "TAKEN_OVER_WITHIN", 1000.0)
    servers = Servers("https://a")
    servers.leases = 1
    async with looking(servers) as seen:
        await asyncio.sleep(5 * dry_runs._ASK_EVERY)
        assert seen == []
        servers.revisions = dict.fromkeys(servers.revisions, 7)
        await is_seen(seen)


async def test_one_that_cannot_be_reached_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_runs, "TAKEN_OVER_WITHIN", 1.0)
    servers = Servers("https://a", "https://b")
    servers.revisions |= {MAIN: 7, "https://a": 7, "https://b": None}
    async with looking(servers) as seen:
        await asyncio.sleep(0.5)
        assert seen == []
        await is_seen(seen)


async def test_a_guard_that_nothing_binds_is_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_runs, "TAKEN_OVER_WITHIN", 0.2)
    async with looking(Servers()) as seen:
        await asyncio.sleep(1)
        assert seen == []


async def test_a_claim_that_the_watch_has_not_told_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_guards, "_TOLD_WITHIN", 0.2)
    servers = Servers("https://a", "https://b")
    servers.revisions = dict.fromkeys(servers.revisions, 7)
    servers.claims = [Identity(name="c", namespace="default", uid="u", resource_version="5")]
    async with looking(servers) as seen:
        await is_seen(seen)
