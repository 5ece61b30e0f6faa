"""What goes over the wire to the API server, and what is made of its answers."""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gpusharing.kube import transport
from gpusharing.kube.kinds import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from gpusharing.kube.transport import Api, ApiError, UnreachableError, open_session
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


@pytest.mark.parametrize("page", [b"<html>Please log in</html>", b"", b"[1]", b'{"items":[{}]}', b"\xff"])
@pytest.mark.parametrize("call", [_get, _create, _patch, _list])
async def test_success_that_is_no_object(api: Api, script: Script, call: Call, page: bytes) -> None:
    """A captive portal, or a proxy that cuts bodies off: no answer from the API server, whatever the status says."""
    script.then(says(page))
    with pytest.raises(UnreachableError, match=r"^[A-Z]+ /apis/resource.k8s.io/v1/.*: "):
        await call(api)


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
    items, version = await api.list(RESOURCE_CLAIMS, field_selector="metadata.name=x")
    assert [item.metadata.name for item in items] == ["a", "b"]
    assert version == "9"
    assert [received.query.get("continue") for received in script.received] == [None, "t1", "t2"]
    assert {received.query["fieldSelector"] for received in script.received} == {"metadata.name=x"}


async def test_page_that_has_expired_is_an_error(api: Api, script: Script) -> None:
    first = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [CLAIM]}
    script.then(says(first), refuses(410, "Expired", "The provided continue parameter is too old"))
    with pytest.raises(ApiError, match="410 Expired"):
        await api.list(RESOURCE_CLAIMS)
