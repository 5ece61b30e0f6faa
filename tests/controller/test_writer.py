import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from building import NOW, decided, node_sharing, policy, world
from building.from_nothing import decide
from building.snapshot import snapshot
from controller.api_server import Answer, ApiServer, Request, status
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import NodeSharingSpec
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_status import ClientCount, SharingPolicyStatus
from gpusharing.controller.handlers import WATCHED
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.watching import guards
from gpusharing.controller.watching.store import Store
from gpusharing.controller.writer import Writer
from gpusharing.core.intents import Intent, PatchStatus, ReplaceSpec
from gpusharing.kube.events import Events
from gpusharing.kube.kinds import NODE_SHARINGS, NODES, SHARING_POLICIES, Kind
from gpusharing.kube.transport import Api

NODE_SHARINGS_PATH = "/apis/gpusharing.dev/v1alpha1/nodesharings"
STATUS_PATH = "/apis/gpusharing.dev/v1alpha1/sharingpolicies/shared/status"
EVENTS_PATH = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def store() -> Store:
    return Store((*WATCHED, *guards.KINDS), on_change=lambda *_, **__: None)


@pytest.fixture
def writer(api: Api, store: Store, metrics: Metrics) -> Writer:
    return Writer(api, store, Events(api, controller="test", instance="test"), metrics)


@pytest.fixture
def results(metrics: Metrics) -> Callable[[], dict[str, int]]:
    """How often each result came, of those that came."""

    def count() -> dict[str, int]:
        lines = metrics.exposition().decode()
        found = re.findall(r'^gpusharing_intents_total\{kind="(\w+)",result="(\w+)"\} (\d+)\.0$', lines, re.MULTILINE)
        return {f"{kind} {result}": int(times) for kind, result, times in found if times != "0"}

    return count


def kept(request: Request) -> Answer:
    """Keeps what is written, as version 2; a new spec is a new generation."""
    if request.method == "POST":
        return 201, request.body
    is_policy = "sharingpolicies" in request.path
    name = request.path.removesuffix("/status").rpartition("/")[2]
    sharing = node_sharing(name, gpus=2)
    return 200, {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "2", "generation": 1 if is_policy else 2},
        "spec": policy().spec.to_json() if is_policy else request.body["spec"],
        "status": request.body["status"] if is_policy else sharing.status.to_json(),
    }


def seed(store: Store, item: NodeSharing | SharingPolicy) -> None:
    kind: Kind[Any] = NODE_SHARINGS if isinstance(item, NodeSharing) else SHARING_POLICIES
    metadata = item.metadata.for_update() | {"generation": item.metadata.generation}
    store.seen(kind, item.to_json() | {"metadata": metadata})


def replacing(name: str, **metadata: Any) -> ReplaceSpec:
    before = node_sharing(name)
    return ReplaceSpec(
        before.model_copy(update={"metadata": replace(before.metadata, **metadata)}),
        NodeSharingSpec(gpus=(decided(0, policy(), node=name),)),
    )


def undecided() -> PatchStatus:
    """The first status of a policy that matches nothing."""
    (intent,) = decide(world(policies=[policy()]), now=NOW)
    assert isinstance(intent, PatchStatus)
    return intent


async def test_a_spec_goes_with_all_metadata_that_others_put_there(writer: Writer, server: ApiServer) -> None:
    server.answer = kept
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}
    intent = replacing("n1", labels={"a": "b"}, annotations={"c": "d"}, finalizers=("e/f",), owner_references=(owner,))
    await writer.apply([intent])
    (request,) = server.requests
    assert request.method == "PUT"
    assert request.path == f"{NODE_SHARINGS_PATH}/n1"
    assert request.body == {
        "apiVersion": "gpusharing.dev/v1alpha1",
        "kind": "NodeSharing",
        "metadata": {
            "name": "n1",
            "uid": "uid-n1",
            "resourceVersion": "1",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "finalizers": ["e/f"],
            "ownerReferences": [owner],
        },
        "spec": intent.spec.to_json(),
    }


async def test_the_answer_to_a_write_is_what_the_next_decision_sees(
    writer: Writer, store: Store, server: ApiServer
) -> None:
    server.answer = kept
    intent = replacing("n1")
    seed(store, intent.before)
    await writer.apply([intent])
    (known,) = store.all(NODE_SHARINGS)
    assert known.metadata.resource_version == "2"
    assert known.spec == intent.spec


async def test_a_status_names_the_version_it_speaks_of_and_takes_back_what_is_not_said_any_more(
    writer: Writer, server: ApiServer
) -> None:
    server.answer = kept
    before = policy(status=SharingPolicyStatus(clients=ClientCount(current=1, max=2)))
    await writer.apply([PatchStatus(before, SharingPolicyStatus(observed_generation=1))])
    (request,) = server.requests
    assert (request.method, request.path) == ("PATCH", STATUS_PATH)
    assert request.body == {
        "metadata": {"resourceVersion": "1"},
        "status": {"observedGeneration": 1, "conditions": [], "clients": None, "lagging": []},
    }


async def test_a_change_of_ready_is_told_once(writer: Writer, store: Store, server: ApiServer) -> None:
    server.answer = kept
    intent = undecided()
    seed(store, intent.before)
    await writer.apply([intent])
    (event,) = server.asked("POST")
    assert event.path == EVENTS_PATH
    said = event.body
    assert (said["type"], said["reason"], said["action"]) == ("Warning", "NoMatchingNodes", "Reconcile")
    assert said["regarding"] == {
        "apiVersion": "gpusharing.dev/v1alpha1",
        "kind": "SharingPolicy",
        "name": "shared",
        "uid": "uid-shared",
        "resourceVersion": "1",
    }
    # The same Ready with other words is no news.
    (again,) = (
        PatchStatus(known, known.status.model_copy(update={"observed_generation": 9}))
        for known in store.all(SHARING_POLICIES)
    )
    await writer.apply([again])
    assert len(server.asked("POST")) == 1


async def test_an_event_that_is_refused_is_not_told_later(
    writer: Writer, server: ApiServer, results: Callable[[], dict[str, int]]
) -> None:
    server.answer = lambda request: status(403, "Forbidden") if request.method == "POST" else kept(request)
    await writer.apply([undecided()])
    assert results() == {"PatchStatus unannounced": 1}
    assert writer.retry_in is None


async def test_a_refused_status_is_not_announced(writer: Writer, server: ApiServer) -> None:
    server.answer = lambda _: status(409, "Conflict")
    await writer.apply([undecided()])
    assert server.asked("POST") == []


@pytest.mark.parametrize("code", [404, 409])
async def test_what_was_overtaken_waits_for_the_newer_object(
    writer: Writer, server: ApiServer, results: Callable[[], dict[str, int]], code: int
) -> None:
    server.answer = lambda _: status(code, "Conflict")
    await writer.apply([replacing("n1")])
    assert len(server.requests) == 1
    assert results() == {"ReplaceSpec conflict": 1}
    assert writer.retry_in is None


async def test_one_failure_stops_no_other_write_and_is_tried_again_later(
    writer: Writer, server: ApiServer, results: Callable[[], dict[str, int]]
) -> None:
    server.answer = lambda request: status(403, "Forbidden") if "n2" in request.path else kept(request)
    intents: Sequence[Intent] = [replacing("n1"), replacing("n2"), replacing("n3"), undecided()]
    await writer.apply(intents)
    assert results() == {"ReplaceSpec written": 2, "ReplaceSpec failed": 1, "PatchStatus written": 1}
    assert writer.retry_in is not None
    # However often the loop runs meanwhile.
    asked = len(server.requests)
    await writer.apply([intents[1]])
    assert len(server.requests) == asked
    await writer.apply([])
    assert writer.retry_in is None


async def test_an_answer_that_cannot_be_read_stops_no_other_write(
    writer: Writer, server: ApiServer, results: Callable[[], dict[str, int]]
) -> None:
    server.answer = lambda request: (200, {"kind": "Surprise"}) if "n1" in request.path else kept(request)
    await writer.apply([replacing("n1"), replacing("n2")])
    assert results() == {"ReplaceSpec written": 1, "ReplaceSpec failed": 1}


async def test_specs_are_written_before_statuses(writer: Writer, server: ApiServer) -> None:
    server.answer = kept
    await writer.apply([undecided(), replacing("n1"), replacing("n2")])
    assert [request.method for request in server.requests] == ["PUT", "PUT", "PATCH", "POST"]


async def test_deciding_twice_writes_once(writer: Writer, store: Store, server: ApiServer) -> None:
    """The second decision is made on what the first one wrote, without a watch in between."""
    server.answer = kept
    seed(store, policy())
    seed(store, node_sharing("n1", gpus=2))
    store.seen(NODES, {"metadata": {"name": "n1", "uid": "n", "resourceVersion": "1"}})
    first = decide(snapshot(store), now=NOW)
    assert [type(intent) for intent in first] == [ReplaceSpec, PatchStatus]
    await writer.apply(first)
    assert decide(snapshot(store), now="2030-01-01T00:00:00Z") == []
