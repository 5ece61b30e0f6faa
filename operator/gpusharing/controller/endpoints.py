"""/healthz, /readyz and /metrics."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum

import structlog
from aiohttp import web

from gpusharing.controller.metrics import Metrics
from gpusharing.kube.address import Address

log = structlog.get_logger(__name__)


class Readiness(StrEnum):
    READY = "ok"
    STANDING_BY = "standing by"
    NOT_READY = "not ready"


@asynccontextmanager
async def serving(
    address: Address, *, is_alive: Callable[[], bool], readiness: Callable[[], Readiness], metrics: Metrics
) -> AsyncIterator[Address]:
    """Serves them; gives the address, with the port that the system chose where none was asked for."""

    async def healthz(_: web.Request) -> web.Response:
        good = is_alive()
        return _answer(good, "ok" if good else "stuck")

    async def readyz(_: web.Request) -> web.Response:
        state = readiness()
        return _answer(state is not Readiness.NOT_READY, state)

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


def _answer(good: bool, says: str) -> web.Response:
    return web.Response(text=f"{says}\n", status=200 if good else 503)
