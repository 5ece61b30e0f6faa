import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from building import NOW, class_of, decided, node_sharing, policy, world
from building.from_nothing import decide
from building.snapshot import snapshot
from controller.api_server import Answer, ApiServer, Request, status
from gpusharing.api.meta import ObjectMeta, WholeMeta
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import NodeSharingSpec, PolicyReference
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_status import ClientCount, SharingPolicyStatus
from gpusharing.controller import writer as module
from gpusharing.controller.event_recorder import EventRecorder
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.watching import guards
from gpusharing.controller.watching.following import WATCHED
from gpusharing.controller.watching.store import Store
from gpusharing.controller.writer import Writer
from gpusharing.core.events.on_write import EVICT
from gpusharing.core.intents import Create, Delete, Intent, Patch, PatchStatus, RecordEvent, ReplaceSpec, Stage, Target
from gpusharing.kube.events import Events
from gpusharing.kube.kinds import NODE_SHARINGS, NODES, SHARING_POLICIES, Kind
from gpusharing.kube.retry import Backoff
from gpusharing.kube.transport import Api

NODE_SHARINGS_PATH = "/apis/gpusharing.dev/v1alpha1/nodesharings"
STATUS_PATH = "/apis/gpusharing.dev/v1alpha1/sharingpolicies/shared/status"
EVENTS_PATH = "/apis/events.k8s.io/v1/namespaces/default/events"


CLASS = Create(target=Target.DEVICE_CLASS, stage=Stage.CLASSES, body={"metadata": {"name": "p-mps"}, "spec": {}})
GUARD = Patch(
    target=Target.ADMISSION_POLICY, stage=Stage.GUARDS, before=replace(class_of("guard").metadata, name="g"), body={}
)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def store() -> Store:
    return Store((*WATCHED, *guards.KINDS), on_change=lambda *_, **__: None)


@dataclass
class Undecided:
    """How old the oldest change is that is not decided on yet."""

    seconds: float = 0.0


@pytest.fixture
def undecided() -> Undecided:
    return Undecided()


@pytest_asyncio.fixture
async def writer(api: Api, store: Store, metrics: Metrics, undecided: Undecided) -> AsyncIterator[Writer]:
    recorder = EventRecorder(Events(api, controller="test", instance="test"), metrics)
    writer = Writer(api, store, recorder, metrics, undecided_for=lambda: undecided.seconds)
    tasks = [asyncio.create_task(work) for work in (writer.run(), recorder.run())]
    yield writer
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def until(condition: Callable[[], object], *, within: float = 5) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 (what is waited for knows no events)
            await asyncio.sleep(0.005)


async def written(writer: Writer, server: ApiServer, intents: Sequence[Intent], *, requests: int) -> None:
    """Wanted, and so many requests later."""
    expected = len(server.requests) + requests
    writer.want(intents)
    await until(lambda: len(server.requests) >= expected)
    await asyncio.sleep(0.05)
    assert len(server.requests) == expected


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
    metadata = WholeMeta(**asdict(item.metadata)).for_update() | {"generation": item.metadata.generation}
    store.apply(kind, item.to_json() | {"metadata": metadata})


def replacing(name: str, **metadata: Any) -> ReplaceSpec:
    before = node_sharing(name)
    return ReplaceSpec(
        before.model_copy(update={"metadata": replace(before.metadata, **metadata)}),
        NodeSharingSpec(gpus=(decided(0, policy(), node=name),)),
    )


def first_status() -> PatchStatus:
    """The first status of a policy that matches nothing."""
    (intent,) = decide(world(policies=[policy()]), now=NOW)
    assert isinstance(intent, PatchStatus)
    return intent


async def test_a_spec_goes_with_all_metadata_that_others_put_there(writer: Writer, server: ApiServer) -> None:
    server.answer = kept
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}
    intent = replacing("n1", labels={"a": "b"}, annotations={"c": "d"}, finalizers=("e/f",), owner_references=(owner,))
    await written(writer, server, [intent], requests=1)
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


async def test_what_became_of_a_spec_is_told_by_the_watch_alone(
    writer: Writer, store: Store, server: ApiServer
) -> None:
    """A thousand answers would be read twice. Until the watch has told, the same intent is not written again."""
    server.answer = kept
    intent = replacing("n1")
    seed(store, intent.before)
    await written(writer, server, [intent], requests=1)
    assert list(store.all(NODE_SHARINGS)) == [intent.before]
    writer.want([intent])
    await asyncio.sleep(0.1)
    assert len(server.requests) == 1


async def test_a_status_names_the_version_it_speaks_of_and_takes_back_what_is_not_said_any_more(
    writer: Writer, server: ApiServer
) -> None:
    server.answer = kept
    before = policy(status=SharingPolicyStatus(clients=ClientCount(current=1, max=2)))
    await written(writer, server, [PatchStatus(before, SharingPolicyStatus(observed_generation=1))], requests=1)
    (request,) = server.requests
    assert (request.method, request.path) == ("PATCH", STATUS_PATH)
    assert request.body == {
        "metadata": {"resourceVersion": "1"},
        "status": {"observedGeneration": 1, "conditions": [], "clients": None, "lagging": []},
    }


async def test_a_change_of_ready_is_an_event_once_it_is_written(
    writer: Writer, store: Store, server: ApiServer
) -> None:
    server.answer = kept
    intent = first_status()
    seed(store, intent.before)
    await written(writer, server, [intent], requests=2)
    (event,) = server.asked("POST")
    assert server.requests[-1] is event
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
    await written(writer, server, [again], requests=1)
    assert len(server.asked("POST")) == 1


async def test_a_refused_event_is_nothing_to_its_write(
    writer: Writer, server: ApiServer, results: Callable[[], dict[str, int]]
) -> None:
    server.answer = lambda request: status(403, "Forbidden") if request.method == "POST" else kept(request)
    await written(writer, server, [first_status()], requests=2)
    assert results() == {"PatchStatus written": 1}
    writer.want([])
    assert writer.is_settled


async def test_a_refused_status_is_not_announced(writer: Writer, server: ApiServer) -> None:
    server.answer = lambda _: status(409, "Conflict")
    await written(writer, server, [first_status()], requests=1)
    assert server.asked("POST") == []


@pytest.mark.parametrize("code", [404, 409])
async def test_what_was_overtaken_waits_for_the_newer_object(
    writer: Writer, server: ApiServer, results: Callable[[], dict[str, int]], code: int
) -> None:
    server.answer = lambda _: status(code, "Conflict")
    await written(writer, server, [replacing("n1")], requests=1)
    assert results() == {"ReplaceSpec conflict": 1}
    # Whatever else is decided on the version that there is no more.
    other = replace(replacing("n1"), spec=NodeSharingSpec())
    await written(writer, server, [other], requests=0)
    assert not writer.is_settled
    server.answer = kept
    await written(writer, server, [replacing("n1", resource_version="2")], requests=1)
    assert results() == {"ReplaceSpec conflict": 1, "ReplaceSpec written": 1}


@pytest.mark.parametrize("code", [200, 404, 409])
async def test_an_object_of_which_nothing_is_seen_after_its_write_is_asked_for(
    writer: Writer, store: Store, server: ApiServer, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Without a change, it is tried again, and less and less often."""
    monkeypatch.setattr(module, "_UNSEEN", 0.1)
    intent = replacing("n1")
    seed(store, intent.before)

    def answer(request: Request) -> Answer:
        if request.method == "GET":
            metadata = intent.before.metadata.for_update() | {"resourceVersion": "7"}
            return 200, intent.before.to_json() | {"metadata": metadata | {"generation": 1}}
        return kept(request) if code == 200 else status(code, "Conflict")

    server.answer = answer
    writer.want([intent])
    await until(lambda: server.asked("GET"))
    await until(lambda: store.get(NODE_SHARINGS, "n1").metadata.resource_version == "7")  # type: ignore[union-attr]
    await until(lambda: len(server.asked("PUT")) == 2)
    assert [request.method for request in server.requests] == ["PUT", "GET", "PUT"]
    assert not writer.is_settled


async def test_one_that_has_gone_meanwhile_is_forgotten(
    writer: Writer, store: Store, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UNSEEN", 0.1)
    intent = replacing("n1")
    seed(store, intent.before)
    writer.want([intent])
    await until(lambda: store.get(NODE_SHARINGS, "n1") is None)


async def test_what_is_decided_while_the_object_is_asked_for_is_written_at_once(
    writer: Writer, store: Store, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UNSEEN", 0.05)
    monkeypatch.setattr(module, "_BACKOFF", Backoff(60, 60))
    gate = asyncio.Event()

    async def hold(request: Request) -> None:
        if request.method == "GET":
            await gate.wait()

    server.hold, server.answer = hold, lambda _: status(409, "Conflict")
    intent = replacing("n1")
    seed(store, intent.before)
    writer.want([intent])
    await until(lambda: server.asked("GET"))
    writer.want([replacing("n1", resource_version="2")])
    gate.set()
    await until(lambda: len(server.asked("PUT")) == 2)
    assert server.asked("PUT")[-1].body["metadata"]["resourceVersion"] == "2"


@pytest.mark.parametrize("code", [200, 409])
async def test_an_object_is_not_asked_for_while_the_decision_on_the_answer_may_still_come(
    writer: Writer, server: ApiServer, undecided: Undecided, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A round over thousands of nodes takes its time."""
    monkeypatch.setattr(module, "_UNSEEN", 0.05)
    monkeypatch.setattr(module, "_TOLD_WITHIN", 0.0)
    undecided.seconds = 60
    server.answer = lambda request: kept(request) if code == 200 else status(code, "Conflict")
    await written(writer, server, [replacing("n1")], requests=1)
    await asyncio.sleep(0.3)
    assert not server.asked("GET")
    # Changes that came long after the answer are not what it is waiting for.
    undecided.seconds = 0.01
    await until(lambda: server.asked("GET"))


@pytest.mark.parametrize("code", [404, 409])
@pytest.mark.parametrize("intent", [CLASS, replacing("n1")], ids=["Create", "ReplaceSpec"])
async def test_a_conflict_that_lasts_is_a_refusal(
    *,
    writer: Writer,
    store: Store,
    server: ApiServer,
    results: Callable[[], dict[str, int]],
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    intent: Intent,
) -> None:
    """The object was asked for, and nothing else is decided on it."""
    monkeypatch.setattr(module, "_UNSEEN", 0.05)
    monkeypatch.setattr(module, "_BACKOFF", Backoff(0.1, 60))
    verb, kind = type(intent).__name__, module._key(intent).kind

    def answer(request: Request) -> Answer:
        if request.method == "GET" and isinstance(intent, ReplaceSpec):
            return 200, intent.before.to_json() | {"metadata": intent.before.metadata.for_update()}
        return status(404 if request.method == "GET" else code, "Refused")

    server.answer = answer
    moments: list[float] = []

    async def hold(request: Request) -> None:
        if request.method != "GET":
            moments.append(time.monotonic())

    server.hold = hold
    if isinstance(intent, ReplaceSpec):
        seed(store, intent.before)
    with capture_logs() as logs:
        writer.want([intent])
        await until(lambda: len(moments) == 2)
        await until(lambda: writer.failing(kind) == 1)
        await until(lambda: len(moments) == 4)
        await until(lambda: results() == {f"{verb} conflict": 1, f"{verb} failed": 3})
    assert len(server.asked("GET")) == 1
    refused = [line for line in logs if line["event"] == "write refused"]
    assert [(line["object"], "webhook" in line["remedy"]) for line in refused] == [(module._key(intent).name, True)] * 3
    assert moments[3] - moments[2] > 0.15
    server.answer = kept
    # What is decided on the next version is another write.
    await until(lambda: results().get(f"{verb} written") == 1)
    assert writer.failing(kind) == 0


@pytest.mark.parametrize("then", ["nothing", "another write"])
@pytest.mark.parametrize("was_written", [True, False])
async def test_the_events_of_a_write_whose_answer_was_lost_are_recorded(
    *,
    writer: Writer,
    store: Store,
    server: ApiServer,
    monkeypatch: pytest.MonkeyPatch,
    was_written: bool,
    then: str,
) -> None:
    monkeypatch.setattr(module, "_BACKOFF", Backoff(60, 60))
    spec_write, status_write = noticed("n1"), first_status()
    seed(store, spec_write.before)
    seed(store, status_write.before)
    server.answer = lambda request: (201, request.body) if request.method == "POST" else status(504, "Timeout")
    await written(writer, server, [spec_write, status_write], requests=2)
    spec, said = spec_write.spec, status_write.status
    if not was_written:
        spec, said = NodeSharingSpec(), SharingPolicyStatus(observed_generation=7)
    seed(store, _newer(spec_write.before, spec=spec))
    seed(store, _newer(status_write.before, status=said))
    more: list[Intent] = []
    if then == "another write":
        more = [
            ReplaceSpec(store.get(NODE_SHARINGS, "n1"), NodeSharingSpec(claims=())),  # type: ignore[arg-type]
            PatchStatus(store.get(SHARING_POLICIES, "shared"), SharingPolicyStatus()),  # type: ignore[arg-type]
        ]
    writer.want(more)
    if was_written:
        await until(lambda: len(server.asked("POST")) == 2)
    else:
        await asyncio.sleep(0.2)
    reasons = sorted(request.body["reason"] for request in server.asked("POST"))
    assert reasons == (["ClaimDenied", "NoMatchingNodes"] if was_written else [])
    # Once.
    writer.want([])
    await asyncio.sleep(0.1)
    assert len(server.asked("POST")) == len(reasons)


@pytest.mark.parametrize(("code", "counted"), [(200, {"p": 1}), (409, {}), (504, {"p": 1})])
async def test_an_eviction_counts_once_it_is_written(
    *,
    writer: Writer,
    store: Store,
    server: ApiServer,
    metrics: Metrics,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    counted: dict[str, int],
) -> None:
    """Also where the answer was lost; not where somebody else wrote the object first."""
    monkeypatch.setattr(module, "_BACKOFF", Backoff(60, 60))
    write = evicting("n1")
    seed(store, write.before)
    server.answer = lambda request: kept(request) if request.method == "POST" or code == 200 else status(code, "No")
    writer.want([write])
    await until(lambda: server.asked("PUT"))
    await until(lambda: metrics.figures.evictions or code != 200)
    seed(store, _newer(write.before, spec=NodeSharingSpec() if code == 409 else write.spec))
    for _ in range(2):
        writer.want([])
        await asyncio.sleep(0.1)
    assert metrics.figures.evictions == counted


def noticed(name: str) -> ReplaceSpec:
    event = RecordEvent(
        target=Target.RESOURCE_CLAIM,
        about=ObjectMeta(name="c1", namespace="team", uid="c"),
        warning=True,
        reason="ClaimDenied",
        action="Deny",
        note="words",
        occurrence="1",
    )
    return replace(replacing(name), notices=(event,))


def evicting(name: str) -> ReplaceSpec:
    write = noticed(name)
    policy = PolicyReference(name="p", generation=2)
    notices = tuple(replace(event, action=EVICT, policy=policy) for event in write.notices)
    return replace(write, notices=notices)


def _newer(item: Any, **half: Any) -> Any:
    return item.model_copy(update={"metadata": replace(item.metadata, resource_version="2"), **half})


async def test_one_failure_stops_no_other_write_and_is_tried_again_by_itself(
    writer: Writer, server: ApiServer, results: Callable[[], dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BACKOFF", Backoff(0.4, 30))
    server.answer = lambda request: status(403, "Forbidden") if "n2" in request.path else kept(request)
    intents: Sequence[Intent] = [replacing("n1"), replacing("n2"), replacing("n3"), first_status()]
    await written(writer, server, intents, requests=5)
    assert results() == {"ReplaceSpec written": 2, "ReplaceSpec failed": 1, "PatchStatus written": 1}
    assert [writer.failing(kind) for kind in ("NodeSharing", "SharingPolicy")] == [1, 0]
    # However often something else is decided of it meanwhile.
    await written(writer, server, [replacing("n2", resource_version="2")], requests=0)
    server.answer = kept
    await until(lambda: results()["ReplaceSpec written"] == 3)
    assert server.requests[-1].body["metadata"]["resourceVersion"] == "2"
    assert writer.failing("NodeSharing") == 0


async def test_what_is_not_pending_any_more_is_dropped(
    writer: Writer, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BACKOFF", Backoff(0.2, 30))
    server.answer = lambda _: status(403, "Forbidden")
    await written(writer, server, [replacing("n1")], requests=1)
    writer.want([])
    assert writer.is_settled
    assert writer.failing("NodeSharing") == 0
    await asyncio.sleep(0.5)
    assert len(server.requests) == 1


async def test_an_answer_that_cannot_be_read_stops_no_other_write(
    writer: Writer, server: ApiServer, results: Callable[[], dict[str, int]]
) -> None:
    server.answer = lambda request: (200, {"kind": "Surprise"}) if request.path == STATUS_PATH else kept(request)
    status = PatchStatus(policy(), SharingPolicyStatus(observed_generation=1))
    await written(writer, server, [status, replacing("n2")], requests=2)
    assert results() == {"ReplaceSpec written": 1, "PatchStatus failed": 1}


@pytest.mark.parametrize("outcome", ["written", "failed"])
async def test_of_an_object_one_write_is_under_way_and_then_the_latest(
    writer: Writer, server: ApiServer, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    monkeypatch.setattr(module, "_BACKOFF", Backoff(0.05, 30))
    gate, busy, most = asyncio.Event(), 0, 0

    async def hold(_: Request) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await gate.wait()
        busy -= 1

    def answer(request: Request) -> Answer:
        is_first = len(server.requests) == 1
        return status(500, "InternalError") if is_first and outcome == "failed" else kept(request)

    server.hold, server.answer = hold, answer
    writer.want([replacing("n1")])
    await until(lambda: server.requests)
    for version in ("2", "3"):
        writer.want([])
        writer.want([replacing("n1", resource_version=version)])
    await asyncio.sleep(0.1)
    gate.set()
    await until(lambda: len(server.requests) == 2)
    assert [request.body["metadata"]["resourceVersion"] for request in server.requests] == ["1", "3"]
    assert most == 1


async def test_a_deletion_that_takes_its_time_is_asked_for_once(writer: Writer, server: ApiServer) -> None:
    server.answer = lambda _: (200, {})
    going = Delete(target=Target.DEVICE_CLASS, stage=Stage.CLASSES, before=class_of("p").metadata)
    await written(writer, server, [going], requests=1)
    for _ in range(3):
        await written(writer, server, [replace(going)], requests=0)


async def test_what_is_ready_is_written_in_the_order_of_the_stages(
    api: Api, store: Store, metrics: Metrics, server: ApiServer
) -> None:
    gate = asyncio.Event()

    async def hold(_: Request) -> None:
        await gate.wait()

    server.hold = hold
    recorder = EventRecorder(Events(api, controller="test", instance="test"), metrics)
    writer = Writer(api, store, recorder, metrics, undecided_for=lambda: 0.0)
    writer.want([first_status(), *(replacing(f"n{number}") for number in range(100)), CLASS, GUARD])
    task = asyncio.create_task(writer.run())
    await until(lambda: len(server.requests) == 18)
    await asyncio.sleep(0.1)
    kinds = Counter(request.path.split("/")[4] for request in server.requests)
    assert kinds == {"validatingadmissionpolicies": 1, "deviceclasses": 1, "nodesharings": 16}
    task.cancel()
    await asyncio.wait([task])


async def test_statuses_do_not_wait_for_a_thousand_nodes(writer: Writer, server: ApiServer) -> None:
    async def hold(request: Request) -> None:
        if request.method == "PUT":
            await asyncio.Event().wait()

    server.answer, server.hold = kept, hold
    writer.want([*(replacing(f"n{number}") for number in range(1000)), first_status()])
    await until(lambda: server.asked("PATCH"))
    assert len(server.asked("PUT")) <= 16


async def test_ten_thousand_writes_are_not_ten_thousand_tasks(writer: Writer, server: ApiServer) -> None:
    before = len(asyncio.all_tasks())
    writer.want([replacing(f"n{number}") for number in range(10_000)])
    await asyncio.sleep(0)
    # And those of the server, which this process is as well.
    assert len(asyncio.all_tasks()) - before <= 18


async def test_a_single_claim_does_not_wait_for_a_thousand_nodes(writer: Writer, server: ApiServer) -> None:
    """Nor do these wait for all that comes after them."""
    server.answer = kept
    server.hold = lambda _: asyncio.sleep(0.05)
    rollout: list[Intent] = [replacing(f"n{number}") for number in range(1000)]
    writer.want(rollout)
    await until(lambda: len(server.requests) > 50)
    # One that is not part of it, and one that is, of which something else is decided now.
    urgent: list[Intent] = [replacing("tenant"), replace(replacing("n500"), spec=NodeSharingSpec())]
    began, asked = time.monotonic(), len(server.requests)
    writer.want([*rollout[:500], *rollout[501:], *urgent])
    paths = [f"{NODE_SHARINGS_PATH}/{name}" for name in ("tenant", "n500")]
    await until(lambda: {request.path for request in server.requests} >= {*paths})
    assert time.monotonic() - began < 1
    assert len(server.requests) - asked < 100
    # The newest do not starve the oldest.
    late: list[Intent] = [replacing(f"late{number}") for number in range(1000)]
    asked = len(server.requests)
    writer.want([*rollout, *late])
    await until(lambda: len(server.requests) > asked + 100)
    names = [request.path.rpartition("/")[2] for request in server.requests[asked:]]
    assert 30 < sum(name.startswith("n") for name in names) < 70 + 16


async def test_deciding_twice_writes_once(writer: Writer, store: Store, server: ApiServer) -> None:
    """Before the watch has told what the first one wrote, and after it."""
    server.answer = kept
    seed(store, policy())
    seed(store, node_sharing("n1", gpus=2))
    store.apply(NODES, {"metadata": {"name": "n1", "uid": "n", "resourceVersion": "1"}})
    first = decide(snapshot(store), now=NOW)
    assert [type(intent) for intent in first] == [ReplaceSpec, PatchStatus]
    await written(writer, server, first, requests=3)
    writer.want(decide(snapshot(store), now="2030-01-01T00:00:00Z"))
    await asyncio.sleep(0.1)
    assert len(server.requests) == 3
    for request in server.requests:
        if request.method == "PUT":
            store.apply(NODE_SHARINGS, kept(request)[1])
    assert decide(snapshot(store), now="2030-01-01T00:00:00Z") == []
