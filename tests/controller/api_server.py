"""Answers as it is told and remembers what it was asked: for answers that a real API server rarely gives."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpusharing.kube.transport import Api


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: Any


Answer = tuple[int, Any]


def status(code: int, reason: str) -> Answer:
    return code, {"kind": "Status", "reason": reason, "message": f"said the server: {reason}", "code": code}


@dataclass
class ApiServer:
    answer: Callable[[Request], Answer] = lambda _: status(404, "NotFound")
    hold: Callable[[Request], Awaitable[object]] | None = None
    """What a request waits for before it is answered."""
    requests: list[Request] = field(default_factory=list)

    def asked(self, method: str) -> list[Request]:
        return [request for request in self.requests if request.method == method]

    async def handle(self, request: web.Request) -> web.Response:
        text = await request.text()
        asked = Request(request.method, request.path, dict(request.query), json.loads(text) if text else None)
        self.requests.append(asked)
        if self.hold is not None:
            await self.hold(asked)
        code, body = self.answer(asked)
        return web.json_response(body, status=code)


@asynccontextmanager
async def serving(server: ApiServer) -> AsyncIterator[Api]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    async with TestServer(app) as listening, aiohttp.ClientSession() as session:
        yield Api(session, str(listening.make_url("/")), user_agent="test")
