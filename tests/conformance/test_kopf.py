"""An operator as Kopf's users write them: each handler is called for the same changes on both servers, and what Kopf
writes into objects and Events is the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import kopf
import pytest
import pytest_asyncio

from gpusharing.kube import client_credentials
from gpusharing.kube.kinds import EVENTS, Kind
from gpusharing.kube.transport import Api, open_session
from harness.api_servers import EITHER, AnyControlPlane, api_server, apply
from harness.eventually import eventually

GADGETS: Final[Kind[Any]] = Kind("kopf.test/v1", "Gadget", "gadgets", dict[str, Any])
PART: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.kopf.test"},
    "spec": {
        "group": "kopf.test",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": PART, "status": PART}}},
            }
        ],
    },
}


class Gadgeteer:
    """The operator, and what its handlers were called for."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.registry = kopf.OperatorRegistry()
        self.settings = kopf.OperatorSettings()
        self.settings.peering.standalone = True
        self.settings.posting.enabled = True
        on, registry = kopf.on, self.registry
        on.login(registry=registry)(kopf.login_with_kubeconfig)
        on.create("gadgets.kopf.test", id="created", registry=registry)(self.created)
        on.update("gadgets.kopf.test", id="updated", field="spec", registry=registry)(self.updated)
        on.resume("gadgets.kopf.test", id="resumed", registry=registry)(self.resumed)
        on.delete("gadgets.kopf.test", id="deleted", registry=registry)(self.deleted)

    async def created(self, *, name: str, body: kopf.Body, retry: int, patch: kopf.Patch, **_: Any) -> dict[str, Any]:
        if retry == 0:
            raise kopf.TemporaryError("not yet", delay=0.1)
        self.calls.append(("created", name))
        kopf.info(body, reason="Made", message="as asked")
        patch.status["phase"] = "Made"
        patch.metadata.labels["made"] = "yes"
        return {"retries": retry}

    async def updated(self, *, name: str, diff: kopf.Diff, patch: kopf.Patch, **_: Any) -> None:
        self.calls.append(("updated", name, *((one.operation, ".".join(one.field), one.old, one.new) for one in diff)))
        patch.status["phase"] = "Changed"

    async def resumed(self, *, name: str, **_: Any) -> None:
        self.calls.append(("resumed", name))

    async def deleted(self, *, name: str, **_: Any) -> None:
        self.calls.append(("deleted", name))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.calls.clear()
        stop, ready = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(
            kopf.operator(
                registry=self.registry, settings=self.settings, clusterwide=True, stop_flag=stop, ready_flag=ready
            )
        )
        try:
            await asyncio.wait_for(ready.wait(), 30)
            yield
        finally:
            stop.set()
            await asyncio.wait_for(task, 30)

    async def until_called(self, *expected: tuple[Any, ...]) -> None:
        async def check() -> None:
            assert self.calls == list(expected)

        await eventually(check)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=EITHER)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[AnyControlPlane]:
    async with api_server(request.param) as server:
        await apply(server.kubeconfig, DEFINITION)
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def api(server: AnyControlPlane) -> AsyncIterator[Api]:
    credentials = await client_credentials.load(server.kubeconfig)
    async with open_session(credentials) as session:
        yield Api(session, credentials.server, user_agent="tests/1")


async def found(api: Api, name: str) -> Any:
    return await api.get(GADGETS, name, namespace="default")


async def names(api: Api) -> set[str]:
    return {gadget["metadata"]["name"] for gadget in (await api.list(GADGETS))[0]}


async def delete(api: Api, name: str) -> None:
    await api.delete(GADGETS, name, uid=(await found(api, name))["metadata"]["uid"], namespace="default")


@pytest.mark.asyncio(loop_scope="module")
async def test_it_lives_through_everything(server: AnyControlPlane, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    kopf_ = Gadgeteer()
    async with kopf_.running():
        await api.create(GADGETS, {"metadata": {"name": "a"}, "spec": {"size": 1}}, "default")
        await kopf_.until_called(("created", "a"))

        async def is_made() -> None:
            gadget = await found(api, "a")
            metadata = gadget["metadata"]
            assert metadata["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
            assert metadata["labels"] == {"made": "yes"}
            # What it had in mind while it tried again is not there any more.
            assert set(metadata["annotations"]) == {"kopf.zalando.org/last-handled-configuration"}
            assert gadget["status"] == {"phase": "Made", "created": {"retries": 1}}

        await eventually(is_made)
        await api.merge_patch(GADGETS, "a", {"spec": {"size": 2, "color": "red"}}, namespace="default")
        changes = (("add", "color", None, "red"), ("change", "size", 1, 2))
        await kopf_.until_called(("created", "a"), ("updated", "a", *changes))
        # Metadata and status are nobody's business here.
        await api.merge_patch(GADGETS, "a", {"metadata": {"labels": {"other": "x"}}}, namespace="default")

    # While nobody looks, one changes, one is deleted, and one comes.
    await api.create(GADGETS, {"metadata": {"name": "b"}, "spec": {"size": 5}}, "default")
    await api.merge_patch(GADGETS, "a", {"spec": {"size": 3}}, namespace="default")
    async with kopf_.running():

        async def has_seen_both() -> None:
            assert sorted(kopf_.calls) == [
                ("created", "b"), ("resumed", "a"), ("updated", "a", ("change", "size", 2, 3)),
            ]  # fmt: skip

        await eventually(has_seen_both)

    await delete(api, "a")
    assert (await found(api, "a"))["metadata"]["deletionTimestamp"]
    async with kopf_.running():

        async def is_gone() -> None:
            assert ("deleted", "a") in kopf_.calls
            assert "a" not in await names(api)

        await eventually(is_gone)
        await delete(api, "b")
        await eventually(lambda: _called(kopf_, ("deleted", "b")))

    async def is_told() -> None:
        events, _ = await api.list(EVENTS)
        about = sorted((event["reason"], event["type"]) for event in events if event["regarding"]["name"] == "a")
        assert about == [("Made", "Normal")]

    await eventually(is_told)


async def _called(operator: Gadgeteer, call: tuple[Any, ...]) -> None:
    assert call in operator.calls
