"""What goes over the wire to the API server, and what is made of its answers."""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from building import hostile
from gpusharing.kube import transport
from gpusharing.kube.kinds import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from gpusharing.kube.reading import LARGEST_OBJECT
from gpusharing.kube.transport import Api, ApiError, UnreachableError, UnreadableError, open_session
from kube.conftest import Answer, Script, breaks, credentials, hangs, refuses, says

CLAIM = {"metadata": {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "7"}, "status": {}}
CLAIM_PATH = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"

Call = Callable[[Api], Awaitable[Any]]


def _get(api: Api) -> Awaitable[Any]:
    return api.get(RESOURCE_CLAIMS, "c", "ns")


def _list(api: Api) -> Awaitable[Any]:
    return api.list(RESOURCE_CLAIMS)


def _create(api: Api) -> Awaitable[Any]:
    return api.create(RESOURCE_CLAIMS, {"metadata": {"name": "c"}}, "ns")


def _replace(api: Api) -> Awaitable[Any]:
    return api.replace(RESOURCE_CLAIMS, "c", {"metadata": {"name": "c"}}, "ns")


def _patch(api: Api) -> Awaitable[Any]:
    return api.merge_patch(RESOURCE_CLAIMS, "c", {"status": {}}, namespace="ns", subresource="status")


def _delete(api: Api) -> Awaitable[Any]:
    return api.delete(RESOURCE_SLICES, "s", uid="u")


REPEATABLE: list[Call] = [_get, _list, _delete]
ONCE: list[Call] = [_create, _replace, _patch]
LIST = {"metadata": {"resourceVersion": "9"}, "items": [CLAIM]}


def _fine(call: Call) -> Answer:
    return says(LIST if call is _list else CLAIM)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("trouble", [breaks(), refuses(500), refuses(503), says(b"<html>", 502), refuses(504)])
@pytest.mark.parametrize("call", REPEATABLE)
async def test_what_may_be_repeated_is(api: Api, script: Script, call: Call, trouble: Answer) -> None:
    script.then(trouble, trouble, trouble, _fine(call))
    await call(api)
    assert len(script.received) == 4


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("call", REPEATABLE)
async def test_patience_ends(api: Api, script: Script, call: Call) -> None:
    script.then(refuses(503, "ServiceUnavailable", "etcd is away"))
    with pytest.raises(ApiError, match="503 ServiceUnavailable: etcd is away"):
        await call(api)
    assert len(script.received) == 4


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("trouble", [breaks(), refuses(500), refuses(503), refuses(504)])
@pytest.mark.parametrize("call", ONCE)
async def test_what_may_have_been_done_is_not_sent_twice(api: Api, script: Script, call: Call, trouble: Answer) -> None:
    script.then(trouble, _fine(call))
    with pytest.raises((ApiError, UnreachableError)):
        await call(api)
    assert len(script.received) == 1


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422])
@pytest.mark.parametrize("call", [_get, _create, _replace, _patch])
async def test_what_cannot_become_better_is_not_repeated(api: Api, script: Script, call: Call, status: int) -> None:
    script.then(refuses(status, "Because", "so it is"))
    with pytest.raises(ApiError) as error:
        await call(api)
    assert len(script.received) == 1
    assert (error.value.status, error.value.reason, error.value.message) == (status, "Because", "so it is")


@pytest.mark.parametrize("call", [*REPEATABLE, *ONCE])
async def test_too_many_requests_are_repeated_when_the_server_says(api: Api, script: Script, call: Call) -> None:
    script.then(refuses(429, "TooManyRequests", Retry_After="1"), _fine(call))
    await call(api)
    first, second = script.received
    assert (first.verb, first.path, first.body) == (second.verb, second.path, second.body)
    # Never sooner.
    assert second.at - first.at >= 1


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("after", ["Wed, 21 Oct 2026 07:28:00 GMT", "soon", "", "-5", "nan", "0"])
async def test_retry_after_that_is_no_number(api: Api, script: Script, after: str) -> None:
    """Proxies may send a date."""
    script.then(refuses(429, "TooManyRequests", Retry_After=after), says(CLAIM))
    await api.get(RESOURCE_CLAIMS, "c", "ns")
    assert len(script.received) == 2


async def test_nobody_waits_for_an_hour(api: Api, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet waits 45 seconds for an answer, whatever a server says."""
    monkeypatch.setattr(transport, "REQUEST_TIMEOUT", 0.5)
    script.then(refuses(429, "TooManyRequests", Retry_After="3600"), says(CLAIM))
    started = time.monotonic()
    await api.get(RESOURCE_CLAIMS, "c", "ns")
    assert time.monotonic() - started < 60


@pytest.mark.usefixtures("quick")
async def test_gone_already_is_deleted(api: Api, script: Script) -> None:
    # The first one was done, but no answer came.
    script.then(breaks(), refuses(404, "NotFound"))
    await api.delete(RESOURCE_SLICES, "s", uid="u")
    assert script.verbs == ["DELETE", "DELETE"]
    assert json.loads(script.received[0].body) == {"preconditions": {"uid": "u"}}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("call", "verb", "path"),
    [
        (_get, "GET", f"{CLAIM_PATH}/c"),
        (_list, "GET", "/apis/resource.k8s.io/v1/resourceclaims"),
        (_create, "POST", CLAIM_PATH),
        (_replace, "PUT", f"{CLAIM_PATH}/c"),
        (_patch, "PATCH", f"{CLAIM_PATH}/c/status"),
        (_delete, "DELETE", "/apis/resource.k8s.io/v1/resourceslices/s"),
    ],
)
async def test_errors_name_verb_and_object(api: Api, script: Script, call: Call, verb: str, path: str) -> None:
    script.then(refuses(403, "Forbidden", "not you"))
    with pytest.raises(ApiError) as error:
        await call(api)
    assert str(error.value) == f"{verb} {path}: 403 Forbidden: not you"
    assert (error.value.verb, error.value.path) == (verb, path)
    assert (script.received[0].verb, script.received[0].path) == (verb, path)
    script.answers = [breaks()]
    with pytest.raises(UnreachableError, match=f"^{verb} {path}: .*ServerDisconnectedError"):
        await call(api)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("call", [_get, _create])
async def test_server_that_does_not_answer(
    api: Api, script: Script, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "REQUEST_TIMEOUT", 0.5)
    script.then(hangs())
    with pytest.raises(UnreachableError, match="TimeoutError"):
        await call(api)
    assert len(script.received) == (4 if call is _get else 1)


@pytest.mark.usefixtures("quick")
async def test_nobody_listens() -> None:
    nowhere = "http://127.0.0.1:1"
    async with open_session(credentials(nowhere)) as session:
        with pytest.raises(UnreachableError, match=r"^GET /api/v1/nodes/n: .*Cannot connect to host 127.0.0.1:1"):
            await Api(session, nowhere, user_agent="tests/1").get(NODES, "n")


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b"", ""),
        (b"[]", "[]"),
        (b"null", "null"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 5000, "x" * 500),
    ],
)
async def test_error_page_of_somebody_else(api: Api, script: Script, page: bytes, shown: str) -> None:
    script.then(says(page, 403))
    with pytest.raises(ApiError) as error:
        await api.get(NODES, "n")
    assert (error.value.status, error.value.reason, error.value.message) == (403, "Forbidden", shown)


@pytest.mark.parametrize("page", [b"<html>Please log in</html>", b"", b"\xff", b'{"metadata":{"name":"c"'])
@pytest.mark.parametrize("call", [_get, _create, _patch, _list])
async def test_success_that_is_no_json(api: Api, script: Script, call: Call, page: bytes) -> None:
    """A captive portal, or a proxy that cuts bodies off: no answer from the API server, whatever the status says."""
    script.then(says(page))
    with pytest.raises(UnreachableError, match=r"^[A-Z]+ /apis/resource.k8s.io/v1/.*: "):
        await call(api)


@pytest.mark.parametrize("page", [b"[1]", b'{"items":[{}]}', b'{"metadata":{"name":3}}'])
@pytest.mark.parametrize("call", [_get, _create, _patch])
async def test_success_that_is_not_the_object(api: Api, script: Script, call: Call, page: bytes) -> None:
    """To ask for it again and again would be of no use."""
    script.then(says(page))
    with pytest.raises(UnreadableError, match=r"^[A-Z]+ /apis/resource.k8s.io/v1/.*: 200 Unreadable: "):
        await call(api)
    assert len(script.received) == 1


@pytest.mark.parametrize("page", [b"[1]", b'{"items":[{}]}', b'{"metadata":{},"items":{}}'])
async def test_success_that_is_no_list(api: Api, script: Script, page: bytes) -> None:
    script.then(says(page))
    with pytest.raises(UnreachableError, match="not a list"):
        await _list(api)


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (b'{"metadata":{"name":"bad","namespace":"ns"},"status":3}', "ns/bad"),
        (b'{"metadata":{"name":3}}', "3"),
        (b'{"metadata":null}', "?"),
        (b"[[[]]]", "?"),
        (b"null", "?"),
        (b'{"metadata":{"name":"bad"},"status":{"devices":"' + b"x" * 100_000 + b'"}}', "bad"),
    ],
)
async def test_item_that_cannot_be_read_hides_no_other(api: Api, script: Script, item: bytes, name: str) -> None:
    good = json.dumps(CLAIM).encode()
    script.then(says(b'{"metadata":{"resourceVersion":"9"},"items":[' + item + b"," + good + b"]}"))
    with capture_logs() as logs:
        items, version = await api.list(RESOURCE_CLAIMS)
    assert ([found.metadata.name for found in items], version) == (["c"], "9")
    assert [(entry["kind"], entry["object"]) for entry in logs] == [("ResourceClaim", name)]
    assert all(len(entry["error"]) <= 1024 for entry in logs)
    assert api.unreadables.counts == {"ResourceClaim": 1}


class Shelf:
    """A list of objects of these sizes, as an API server gives it."""

    def __init__(self, *sizes: int) -> None:
        self._items = [
            b'{"metadata":{"name":"c%d","namespace":"ns","uid":"u","resourceVersion":"7"},"x":"%b"}'
            % (number, b"x" * size)
            for number, size in enumerate(sizes)
        ]
        self.asked: list[tuple[int, int]] = []
        """From which object on, and for how many."""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        begin, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        self.asked.append((begin, limit))
        end = begin + limit
        token = b',"continue":"%d"' % end if end < len(self._items) else b""
        items = b",".join(self._items[begin:end])
        return web.Response(body=b'{"kind":"L","metadata":{"resourceVersion":"9"%b},"items":[%b]}\n' % (token, items))


async def test_page_of_too_many_bytes_is_asked_for_again_with_fewer_objects(
    api: Api, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "PAGE_BYTES", 4000)
    monkeypatch.setattr(transport, "PAGE_SIZE", 8)
    shelf = Shelf(*[10] * 8, *[3000] * 3, *[10] * 40)
    script.then(shelf)
    items, version = await api.list(RESOURCE_CLAIMS)
    assert [item.metadata.name for item in items] == [f"c{number}" for number in range(51)]
    assert version == "9"
    # Halved until it fits, and grown again behind what was large.
    assert shelf.asked[:8] == [(0, 8), (8, 8), (8, 4), (8, 2), (8, 1), (9, 1), (10, 1), (11, 1)]
    assert shelf.asked[8:] == [(12, 2), (14, 4), (18, 8), (26, 8), (34, 8), (42, 8), (50, 8)]
    assert api.unreadables.counts == {}


async def test_object_that_is_too_large_hides_no_other(
    api: Api, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "PAGE_BYTES", 4000)
    monkeypatch.setattr(transport, "LARGEST_OBJECT", 2**20)
    monkeypatch.setattr(transport, "PAGE_SIZE", 2)
    shelf = Shelf(10, 2**20, 10, 2**20)
    script.then(shelf)
    with capture_logs() as logs:
        items, version = await api.list(RESOURCE_CLAIMS)
    assert ([item.metadata.name for item in items], version) == (["c0", "c2"], "9")
    assert [(entry["object"], entry["error"]) for entry in logs] == [
        ("ns/c1", "has more than 1 MiB as JSON"),
        ("ns/c3", "has more than 1 MiB as JSON"),
    ]


async def test_answer_that_is_too_large(api: Api, script: Script) -> None:
    script.then(says(CLAIM | {"x": "x" * (LARGEST_OBJECT + 1)}), says(CLAIM))
    with pytest.raises(UnreadableError, match="has more than 12 MiB as JSON"):
        await _get(api)
    await _get(api)


def watched(*lines: bytes) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line + b"\n")
        return response

    return answer


@pytest.mark.parametrize(
    ("line", "name"),
    [
        pytest.param(b'{"type":"MODIFIED","object":{"metadata":{"name":"b","uid":"u"}}}', "b", id="no version"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"b","namespace":"n"}}}', "n/b", id="no uid"),
        pytest.param(b'{"type":"ADDED","object":[]}', "?", id="a list"),
        pytest.param(b'{"type":"ADDED"}', "?", id="no object"),
        pytest.param(b'{"type":7,"object":{}}', "?", id="no type"),
        pytest.param(b'{"type":"ERROR","object":null}', "?", id="an error that says nothing"),
        pytest.param(b'"ADDED"', "?", id="no event"),
        pytest.param(
            b'{"type":"ADDED","object":{"metadata":{"name":"b","namespace":"n","uid":"u"},"x":"'
            + b"<" * LARGEST_OBJECT,
            "n/b",
            id="too long",
        ),
        pytest.param(b"x" * (LARGEST_OBJECT + 1), "?", id="too long, of nobody"),
    ],
)
async def test_event_that_cannot_be_read_hides_no_other(api: Api, script: Script, line: bytes, name: str) -> None:
    good = json.dumps({"type": "ADDED", "object": CLAIM}).encode()
    script.then(watched(line, good))
    with capture_logs() as logs:
        events = [event async for event in api.watch(RESOURCE_CLAIMS, "5")]
    assert events == [("ADDED", CLAIM)]
    assert [(entry["kind"], entry["object"]) for entry in logs] == [("ResourceClaim", name)]
    assert api.unreadables.counts == {"ResourceClaim": 1}


@pytest.mark.parametrize("raw", hostile.RAW.values(), ids=hostile.RAW)
async def test_whatever_a_claim_has_for_parameters_it_is_read(api: Api, script: Script, raw: bytes) -> None:
    claim = json.dumps(CLAIM | {"x": "RAW"}).encode().replace(b'"RAW"', raw)
    script.then(
        says(claim),
        says(b'{"metadata":{"resourceVersion":"9"},"items":[' + claim + b"]}"),
        watched(b'{"type":"ADDED","object":' + claim + b"}"),
    )
    assert (await api.get(RESOURCE_CLAIMS, "c", "ns")).metadata.name == "c"
    assert [item.metadata.name for item in (await api.list(RESOURCE_CLAIMS))[0]] == ["c"]
    assert [value["metadata"] async for _, value in api.watch(RESOURCE_CLAIMS, "5")] == [CLAIM["metadata"]]
    assert api.unreadables.counts == {}


async def test_json_is_canonical_on_the_wire(api: Api, script: Script) -> None:
    """Opaque parameters are compared as bytes, and the API server writes them so."""
    body = {"spec": {"z": [1, {"b": None, "a": "ü<&>"}], "a": 1.5}, "metadata": {"name": "c"}}
    script.then(says(CLAIM))
    await api.create(RESOURCE_CLAIMS, body, "ns")
    await api.replace(RESOURCE_CLAIMS, "c", body, "ns")
    await api.merge_patch(RESOURCE_CLAIMS, "c", body, namespace="ns")
    typed = (
        '{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c"},'
        '"spec":{"a":1.5,"z":[1,{"a":"ü<&>","b":null}]}}'
    ).encode()
    patch = '{"metadata":{"name":"c"},"spec":{"a":1.5,"z":[1,{"a":"ü<&>","b":null}]}}'.encode()
    assert [received.body for received in script.received] == [typed, typed, patch]
    assert [received.headers["Content-Type"] for received in script.received] == [
        "application/json",
        "application/json",
        "application/merge-patch+json",
    ]
    assert {received.headers["User-Agent"] for received in script.received} == {"tests/1"}
    assert {received.headers["Accept"] for received in script.received} == {"application/json"}


async def test_every_request_is_authorized_by_what_is_valid_then(script: Script) -> None:
    """Tokens are rotated while the session lives; also on the second attempt of one request."""
    tokens = iter(["one", "two", "three"])

    async def authorization() -> str:
        return f"Bearer {next(tokens)}"

    made = replace(credentials(script.url), authorization=authorization)
    script.then(refuses(429, Retry_After="0"), says(CLAIM))
    async with open_session(made) as session:
        api = Api(session, script.url, user_agent="tests/1")
        await api.get(RESOURCE_CLAIMS, "c", "ns")
        await api.merge_patch(RESOURCE_CLAIMS, "c", {}, namespace="ns")
    sent = [received.headers["Authorization"] for received in script.received]
    assert sent == ["Bearer one", "Bearer two", "Bearer three"]


@pytest.mark.usefixtures("quick")
async def test_token_that_cannot_be_read_is_no_reason_to_end(script: Script) -> None:
    attempts = []

    async def authorization() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise FileNotFoundError(2, "No such file or directory", "token")
        return "Bearer late"

    made = replace(credentials(script.url), authorization=authorization)
    script.then(says(CLAIM))
    async with open_session(made) as session:
        api = Api(session, script.url, user_agent="tests/1")
        with pytest.raises(UnreachableError, match="No such file or directory: 'token'"):
            await api.merge_patch(RESOURCE_CLAIMS, "c", {}, namespace="ns")
        await api.get(RESOURCE_CLAIMS, "c", "ns")
    assert [received.headers["Authorization"] for received in script.received] == ["Bearer late"]


async def test_list_goes_on_where_the_page_ended(api: Api, script: Script) -> None:
    def page(name: str, token: str) -> dict[str, Any]:
        item = CLAIM | {"metadata": {"name": name, "namespace": "ns"}}
        return {"metadata": {"resourceVersion": "9", "continue": token}, "items": [item]}

    empty = {"metadata": {"resourceVersion": "9"}, "items": None}
    script.then(says(page("a", "t1")), says(page("b", "t2")), says(empty))
    kind = replace(RESOURCE_CLAIMS, label="mine")
    items, version = await api.list(kind, field_selector="metadata.name=x")
    assert [item.metadata.name for item in items] == ["a", "b"]
    assert version == "9"
    assert [received.query.get("continue") for received in script.received] == [None, "t1", "t2"]
    selectors = {(received.query["fieldSelector"], received.query["labelSelector"]) for received in script.received}
    assert selectors == {("metadata.name=x", "mine")}


async def test_page_that_has_expired_is_an_error(api: Api, script: Script) -> None:
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [CLAIM]}
    script.then(says(first), refuses(410, "Expired", "The provided continue parameter is too old"))
    with pytest.raises(ApiError, match="410 Expired"):
        await api.list(RESOURCE_CLAIMS)
