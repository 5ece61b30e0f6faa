"""/healthz, /readyz and /metrics."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
from aiohttp import web

from gpusharing.controller.metrics import Metrics
from gpusharing.kube.address import Address

log = structlog.get_logger(__name__)


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
