"""The server as clients meet it: who may ask, what it refuses, how it begins and ends."""

import asyncio
import base64
import gc
import io
import json
import signal
import ssl
import stat
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from gpusharing.demo.apiserver import EmbeddedApiServer
from gpusharing.demo.apiserver.kinds import definitions
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from harness.toolchain import TOOLS

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedApiServer]:
    async with EmbeddedApiServer(tmp_path / "server") as server:
        yield server


@pytest_asyncio.fixture
async def session(server: EmbeddedApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session(await client_credentials.load(server.kubeconfig)) as session:
        yield session


async def asked(
    session: aiohttp.ClientSession, server: EmbeddedApiServer, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    data = io.BytesIO(body) if isinstance(body, bytes) else None if body is None else json.dumps(body)
    content_type = {"Content-Type": "application/json"} if data is not None else {}
    async with session.request(method, server.url + path, data=data, headers=content_type | headers) as response:
        return response.status, await response.json()


async def test_kubeconfigs_are_for_their_owner_alone(server: EmbeddedApiServer) -> None:
    path = server.add_user("system:serviceaccount:a:b", "system:authenticated", extra={"node": ("n1",)})
    assert path.parent == server.kubeconfig.parent
    for one in (path, server.kubeconfig):
        assert stat.S_IMODE(one.stat().st_mode) == 0o600
    # The private key is in memory alone.
    assert {one.suffix for one in path.parent.iterdir()} <= {"", ".kubeconfig"}
    async with open_session(await client_credentials.load(path)) as session:
        _, review = await asked(session, server, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert review["status"]["userInfo"] == {
        "username": "system:serviceaccount:a:b", "groups": ["system:authenticated"], "extra": {"node": ["n1"]},
    }  # fmt: skip


async def test_strangers_are_refused(server: EmbeddedApiServer, session: aiohttp.ClientSession) -> None:
    assert (await asked(session, server, "GET", PODS, Host="evil.example"))[0] == 403
    context = ssl.create_default_context(cadata=_certificate(server))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as stranger:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic x"}):
            assert (await asked(stranger, server, "GET", PODS, **headers))[0] == 401
    async with aiohttp.ClientSession() as distrustful:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await distrustful.get(server.url)


def _certificate(server: EmbeddedApiServer) -> str:
    cluster = json.loads(server.kubeconfig.read_text())["clusters"][0]["cluster"]
    return base64.b64decode(cluster["certificate-authority-data"]).decode()


async def test_its_certificate_is_one_to_strict_readers(server: EmbeddedApiServer) -> None:
    context = ssl.create_default_context(cadata=_certificate(server))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    host, port = server.url.removeprefix("https://").split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        (("GET", f"{PODS}/a/log", None), 501, "NotImplemented"),
        (("POST", f"{PODS}/a/exec", {}), 501, "NotImplemented"),
        (("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {}), 501, "NotImplemented"),
        (("GET", "/api/v1/watch/pods", None), 404, "NotFound"),
        (("GET", f"{MAPS}/a/nothing", None), 404, "NotFound"),
        (("PUT", MAPS, {}), 405, "MethodNotAllowed"),
        (("POST", "/api/v1/pods", {}), 400, "BadRequest"),
        (("POST", MAPS, b"k8s\0"), 400, "BadRequest"),
        (("POST", MAPS, b"[1]"), 400, "BadRequest"),
        (("POST", MAPS, {"metadata": "x"}), 400, "BadRequest"),
        (("POST", MAPS, {"metadata": {"name": 1}}), 400, "BadRequest"),
        (("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": 1}}), 400, "BadRequest"),
        (("POST", MAPS, {"metadata": {"name": "a", "labels": "x"}}), 400, "BadRequest"),
        (("POST", MAPS, {"metadata": {"name": "a", "ownerReferences": [{}]}}), 422, "Invalid"),
        (("POST", PODS, {"metadata": {"name": "a"}, "spec": {"containers": 1}}), 400, "BadRequest"),
        (("POST", PODS, {"metadata": {"name": "a"}}), 422, "Invalid"),
        (("POST", MAPS, b"x" * (4 * 2**20)), 413, "RequestEntityTooLarge"),
        (("DELETE", "/api/v1/namespaces/default", None), 403, "Forbidden"),
    ],
)
async def test_refusals_say_why(
    server: EmbeddedApiServer, session: aiohttp.ClientSession, request_: tuple[str, str, Any], code: int, reason: str
) -> None:
    status, answer = await asked(session, server, *request_)
    assert (status, answer["kind"], answer["code"], answer["reason"]) == (code, "Status", code, reason)
    assert answer["message"]


@pytest.mark.parametrize("path", ["/apis/batch/v1/jobs", "/apis/batch", "/nothing", "/openapi/v3/apis/batch/v1"])
async def test_what_is_not_served_is_not_there(
    server: EmbeddedApiServer, session: aiohttp.ClientSession, path: str
) -> None:
    async with session.get(server.url + path) as response:
        assert (response.status, await response.text()) == (404, "404 page not found\n")


async def test_what_only_a_cluster_can_check_is_refused(
    server: EmbeddedApiServer, session: aiohttp.ClientSession
) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    body = {"metadata": {"name": "a"}, "spec": {**spec, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}}
    assert (await asked(session, server, "POST", path, body))[0] == 501
    wrong: Any = {"metadata": {"name": "a"}, "spec": {**spec, "validations": [{"expression": "authorizer.group('')"}]}}
    assert (await asked(session, server, "POST", path, wrong))[0] == 501
    wrong["spec"]["validations"] = [{"expression": "object.metadata.name =="}]
    status, answer = await asked(session, server, "POST", path, wrong)
    assert (status, answer["details"]["causes"][0]["field"]) == (422, "spec.validations[0].expression")


async def test_a_pod_waits_for_its_kubelet(server: EmbeddedApiServer, session: aiohttp.ClientSession) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await asked(session, server, "POST", PODS, pod))[0] == 201
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await asked(session, server, "POST", f"{PODS}/p/binding", binding))[0] == 201
    assert (await asked(session, server, "POST", f"{PODS}/p/binding", binding))[0] == 409
    assert (await asked(session, server, "DELETE", f"{PODS}/p"))[0] == 200
    _, going = await asked(session, server, "GET", f"{PODS}/p")
    assert going["spec"]["nodeName"] == "n"
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await asked(session, server, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0}))[0] == 200
    assert (await asked(session, server, "GET", f"{PODS}/p"))[0] == 404


async def test_it_ends_while_watchers_listen_and_leaks_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with EmbeddedApiServer(tmp_path) as server, AsyncExitStack() as stack:
            session = await stack.enter_async_context(open_session(await client_credentials.load(server.kubeconfig)))
            watches = [await session.get(f"{server.url}{MAPS}?watch=1") for _ in range(30)]
            lines = [asyncio.ensure_future(watch.content.readline()) for watch in watches]
            assert (await asked(session, server, "POST", MAPS, {"metadata": {"name": "a"}}))[0] == 201
            assert {json.loads(line)["type"] for line in await asyncio.gather(*lines)} == {"ADDED"}
            for watch in watches:
                watch.close()
        gc.collect()
    assert len(asyncio.all_tasks()) == 1


def test_it_knows_the_kinds_of_the_kubernetes_that_tests_run() -> None:
    """`tools/kubernetes_kinds.py` writes them anew."""
    assert f"k8s.io/kubernetes {definitions().version}\n" in (TOOLS / "kube" / "go.mod").read_text()


async def test_it_runs_alone_until_it_is_told_to_end(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "gpusharing.demo.apiserver", "--directory", tmp_path)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    said = b""
    while b"501" not in said:
        line = await process.stdout.readline()
        assert line, said
        said += line
    assert f"export KUBECONFIG={tmp_path}/kubeconfig" in said.decode()
    async with open_session(await client_credentials.load(tmp_path / "kubeconfig")) as session:
        url = json.loads((tmp_path / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
        async with session.get(f"{url}/version") as response:
            assert response.status == 200
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
