"""A small real HTTP server that answers as it is told."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from gpusharing.kube import transport
from gpusharing.kube.credentials import Credentials
from gpusharing.kube.transport import Api, open_session

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Received:
    verb: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float


@dataclass
class Script:
    """The server's answers, in this order; the last one is given again and again."""

    answers: list[Answer] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    url: str = ""
    version_now: Callable[[str], int] = lambda _: 0
    """What a list of one object, which only asks for that, says of the kind at this path."""

    def then(self, *answers: Answer) -> None:
        self.answers += answers

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.query.get("limit") == "1" and "PartialObjectMetadataList" in request.headers["Accept"]:
            return web.json_response({"metadata": {"resourceVersion": str(self.version_now(request.path))}})
        self.received.append(
            Received(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                await request.read(),
                asyncio.get_running_loop().time(),
            )
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)

    @property
    def verbs(self) -> list[str]:
        return [received.verb for received in self.received]


def says(body: Any, status: int = 200, **headers: str) -> Answer:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=data, status=status, headers={key.replace("_", "-"): headers[key] for key in headers})

    return answer


def refuses(status: int, reason: str = "", message: str = "", **headers: str) -> Answer:
    """An error as the API server puts it."""
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    return says(body, status, **headers)


def breaks() -> Answer:
    """The connection ends without an answer."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def hangs() -> Answer:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    return answer


def credentials(server: str, authorization: str | None = None) -> Credentials:
    async def constant() -> str | None:
        return authorization

    return Credentials(server, ssl.create_default_context(), constant)


@pytest_asyncio.fixture
async def script() -> AsyncIterator[Script]:
    script = Script()
    server = web.Server(script.handle)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert runner.addresses
    script.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield script
    await runner.cleanup()


@pytest_asyncio.fixture
async def api(script: Script) -> AsyncIterator[Api]:
    async with open_session(credentials(script.url)) as session:
        api = Api(session, script.url + "/", user_agent="tests/1")
        script.version_now = api.history.highest
        yield api


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts are long for a test."""
    monkeypatch.setattr(transport, "_FIRST_DELAY", 0.01)
