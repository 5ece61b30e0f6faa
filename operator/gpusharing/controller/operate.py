"""The operator put together."""

import asyncio
import gc
import secrets
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
from gpusharing.api import names
from gpusharing.controller import (
    audit,
    following,
    guards,
    handlers,
    kopf_settings,
    listing,
    server_version,
    taint_rules,
)
from gpusharing.controller.endpoints import Readiness, serving
from gpusharing.controller.event_recorder import EventRecorder
from gpusharing.controller.following import FOLLOWED
from gpusharing.controller.loop import Changes, Loop
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.relists import Relists
from gpusharing.controller.store import Store
from gpusharing.controller.writer import Writer
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.intents import Target
from gpusharing.core.publishing.narrowing import IDLE_WAIT
from gpusharing.core.state.cluster_state import Setup, key_of
from gpusharing.kube import client_credentials
from gpusharing.kube.address import Address
from gpusharing.kube.elector import Elector, LeaseName
from gpusharing.kube.events import Events
from gpusharing.kube.retry import patiently
from gpusharing.kube.transport import Api, open_session

log = structlog.get_logger(__name__)

_NAME: Final = "gpusharing-operator"


async def operate(
    *,
    kubeconfig: Path | None,
    idle_wait: float = IDLE_WAIT,
    listen: Address,
    lease: LeaseName,
    lease_duration: int,
) -> None:
    """Runs until SIGTERM or SIGINT, or until another one leads: LeaseLostError."""
    _set_up_interpreter()
    _end_by_signal()
    credentials = await client_credentials.load(kubeconfig)
    metrics, changes = Metrics(), Changes()

    def on_change(kind: type[Any], *, before: Any | None, after: Any | None) -> None:
        if after is not None:
            decider.state.put(kind, after)
        elif before is not None:
            decider.state.remove(kind, key_of(before))
        if decider.state.has_changed:
            changes.happened()

    known = (*handlers.WATCHED, *taint_rules.KINDS, *guards.KINDS)
    store = Store(known, on_change=on_change, unreadables=metrics.unreadables)
    relists = Relists(known, credentials.server)
    user_agent = f"{_NAME}/{__version__}"

    async with open_session(credentials) as electors, AsyncExitStack() as ours:
        # A container that starts again has the name of the one before, which may still be there.
        me = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        elector = Elector(
            Api(electors, credentials.server, user_agent=user_agent), lease, me=me, duration=lease_duration
        )
        session = await ours.enter_async_context(open_session(credentials, elector.fence))
        api = Api(session, credentials.server, user_agent=user_agent, unreadables=metrics.unreadables)
        recorder = EventRecorder(Events(api, controller=_NAME, instance=socket.gethostname()), metrics)
        writer = Writer(api, store, recorder, metrics)
        loop = Loop(writer, recorder, metrics, changes)
        metrics.watch_store(handlers.WATCHED, store.count)
        metrics.watch_lag(lambda: changes.age)
        metrics.watch_leading(lambda: elector.leads)
        metrics.watch_settled(lambda: loop.is_ready and writer.is_settled)
        metrics.watch_failing(writer.kinds, writer.failing)
        await ours.enter_async_context(
            serving(
                listen,
                is_alive=lambda: not loop.is_stuck,
                readiness=lambda: _readiness(elector, loop),
                metrics=metrics,
            )
        )
        kubernetes = await patiently(lambda: server_version.require_supported(api))
        log.info("connected", server=credentials.server, kubernetes=kubernetes.program)
        server_version.report_unknown_cel(kubernetes, metrics)
        # Nothing is known before the first list.
        rules = await patiently(lambda: taint_rules.served(api))
        decider = Decider(
            Setup(
                driver=names.DRIVER,
                minor=kubernetes.minor,
                idle_wait=idle_wait,
                has_taint_rules=rules is not None,
            )
        )
        async with elector.leading():
            if rules is not None:
                writer.write_as(Target.DEVICE_TAINT_RULE, rules)
            watched = (*handlers.WATCHED, *([rules] if rules else []))
            versions = await patiently(lambda: listing.prime(api, store, watched))
            await patiently(lambda: guards.prime(api, store))
            async with asyncio.TaskGroup() as tasks:
                audits = audit.after_relists(api, store, relists), audit.now_and_then(api, store, watched)
                follows = [following.follow(api, store, kind, versions[kind]) for kind in FOLLOWED]
                writes = writer.run(), recorder.run()
                for work in (loop.run(decider), *writes, *audits, *follows, *guards.following(api, store)):
                    ours.push_async_callback(_cancel, {tasks.create_task(work)})
                ours.push_async_callback(_cancel_what_kopf_forgot, asyncio.all_tasks())
                await kopf.operator(
                    registry=handlers.registry(
                        [kind for kind in watched if kind not in FOLLOWED],
                        store,
                        credentials,
                        relists,
                        on_stop=ours.aclose,
                    ),
                    settings=kopf_settings.settings(),
                    clusterwide=True,
                )
    log.info("stopped")


def _readiness(elector: Elector, loop: Loop) -> Readiness:
    """One that stands by is ready as well: otherwise no rollout would go on, and no node could be drained."""
    if elector.stands_by:
        return Readiness.STANDING_BY
    return Readiness.READY if elector.leads and loop.is_ready else Readiness.NOT_READY


def _set_up_interpreter() -> None:
    # Objects live long here: looking for garbage after each 700 of them would cost a third of the time.
    gc.set_threshold(50_000, 20, 100)
    # Kopf reads JSON by the standard library. Opaque parameters of a claim may be nested five thousand levels deep, and
    # one such claim must not end the watch of all of them.
    sys.setrecursionlimit(20_000)


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
