"""The operator put together."""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Collection
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import kopf
import structlog

from gpusharing import __version__
from gpusharing.controller import guards, handlers, kopf_settings, listing, server_version
from gpusharing.controller.endpoints import serving
from gpusharing.controller.loop import Changes, Loop
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.patience import patiently
from gpusharing.controller.relists import Relists
from gpusharing.controller.store import Store, snapshot
from gpusharing.controller.writer import Writer
from gpusharing.core.decide import decide
from gpusharing.core.narrowing import IDLE_WAIT
from gpusharing.kube import client_credentials
from gpusharing.kube.address import Address
from gpusharing.kube.events import Events
from gpusharing.kube.transport import Api, open_session

log = structlog.get_logger(__name__)

_NAME: Final = "gpusharing-operator"


async def operate(*, kubeconfig: Path | None, driver: str, idle_wait: float = IDLE_WAIT, listen: Address) -> None:
    """Runs until SIGTERM or SIGINT."""
    # Objects live long here: looking for garbage after each 700 of them would cost a third of the time.
    gc.set_threshold(50_000, 20, 100)
    # Kopf reads JSON by the standard library. Opaque parameters of a claim may be nested five thousand levels deep, and
    # one such claim must not end the watch of all of them.
    sys.setrecursionlimit(20_000)
    _end_by_signal()
    credentials = await client_credentials.load(kubeconfig)
    metrics, changes = Metrics(), Changes()
    store = Store(handlers.WATCHED, on_change=changes.happened)
    relists = Relists(handlers.WATCHED, credentials.server)
    metrics.watch_store(handlers.WATCHED, store.count)
    metrics.watch_lag(lambda: changes.age)

    async with open_session(credentials) as session, AsyncExitStack() as ours:
        api = Api(session, credentials.server, user_agent=f"{_NAME}/{__version__}")
        events = Events(api, controller=_NAME, instance=socket.gethostname())
        writer = Writer(api, store, events, metrics)
        loop = Loop(lambda: snapshot(store, driver, kubernetes.minor, idle_wait), decide, writer, metrics, changes)
        await ours.enter_async_context(
            serving(listen, is_alive=lambda: not loop.is_stuck, is_ready=lambda: loop.is_ready, metrics=metrics)
        )
        kubernetes = await patiently(lambda: server_version.require_supported(api))
        log.info("connected", server=credentials.server, kubernetes=kubernetes.program, driver=driver)
        await patiently(lambda: listing.prime(api, store, handlers.WATCHED))
        await patiently(lambda: guards.prime(api, store))
        async with asyncio.TaskGroup() as tasks:
            for work in (loop.run(), listing.audit(api, store, relists), *guards.following(api, store)):
                ours.push_async_callback(_cancel, {tasks.create_task(work)})
            ours.push_async_callback(_cancel_what_kopf_forgot, asyncio.all_tasks())
            await kopf.operator(
                registry=handlers.registry(store, credentials, relists, on_stop=ours.aclose),
                settings=kopf_settings.settings(),
                clusterwide=True,
            )
    log.info("stopped")


def _end_by_signal() -> None:
    """Until Kopf puts its own way of ending in the place of this one."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 (for mypy: a coroutine runs in a task)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _cancel_what_kopf_forgot(others: Collection[asyncio.Task[Any]]) -> None:
    """A watch that is ended while it hands on an event leaves a task, for which Kopf would then wait five seconds."""
    await _cancel(asyncio.all_tasks() - {*others, asyncio.current_task()})
    # The generators of such watches complain about how they are closed when the event loop ends.
    asyncio.get_running_loop().set_exception_handler(lambda _, context: log.debug(context["message"]))


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=1)
