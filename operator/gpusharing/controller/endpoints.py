"""/healthz, /readyz and /metrics."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import structlog
from aiohttp import web

from gpusharing.controller.metrics import Metrics

log = structlog.get_logger(__name__)


class Address(NamedTuple):
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        host, _, port = text.rpartition(":")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))


@asynccontextmanager
async def serving(
    address: Address, *, is_alive: Callable[[], bool], is_ready: Callable[[], bool], metrics: Metrics
) -> AsyncIterator[Address]:
    """Serves them; gives the address, with the port that the system chose where none was asked for."""

    async def healthz(_: web.Request) -> web.Response:
        return _answer(is_alive(), "stuck")

    async def readyz(_: web.Request) -> web.Response:
        return _answer(is_ready(), "not ready")

    async def exposition(_: web.Request) -> web.Response:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=metrics.exposition(), headers=headers)

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", exposition)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, *address).start()
        host, port = runner.addresses[0][:2]
        log.info("listening", host=host, port=port)
        yield Address(host, port)
    finally:
        await runner.cleanup()


def _answer(good: bool, otherwise: str) -> web.Response:
    return web.Response(text="ok\n") if good else web.Response(text=f"{otherwise}\n", status=503)
