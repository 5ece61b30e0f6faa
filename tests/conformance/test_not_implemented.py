"""What the embedded API server leaves out, it says in a sentence, so that nobody looks for a fault of their own."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from harness.api_servers import EMBEDDED, AnyControlPlane, api_server

PODS = "/api/v1/namespaces/default/pods"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[AnyControlPlane]:
    async with api_server(EMBEDDED) as server:
        yield server


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", f"{PODS}/a/log"),
        ("POST", f"{PODS}/a/exec?command=ls"),
        ("POST", f"{PODS}/a/eviction"),
        ("GET", "/api/v1/nodes/a/proxy/metrics"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token"),
        ("PUT", "/api/v1/namespaces/default/finalize"),
        ("GET", f"{PODS}/a?watch=true"),
    ],
)
async def test_it_says_so(server: AnyControlPlane, verb: str, path: str) -> None:
    credentials = await client_credentials.load(server.kubeconfig)
    async with open_session(credentials) as session, session.request(verb, server.url + path) as response:
        answer = await response.json()
    assert (response.status, answer["kind"], answer["reason"]) == (501, "Status", "NotImplemented")
    assert answer["message"].endswith(" is not implemented by this embedded API server; use a real cluster")
