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
from gpusharing.controller import handlers, kopf_settings, server_version, taint_rules
from gpusharing.controller.endpoints import Readiness, serving
from gpusharing.controller.event_recorder import EventRecorder
from gpusharing.controller.loop import Changes, Loop
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.watching import audit, deafness, following, guards, listing
from gpusharing.controller.watching import server as api_server
from gpusharing.controller.watching.following import FOLLOWED
from gpusharing.controller.watching.relists import Relists
from gpusharing.controller.watching.store import Store
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
from gpusharing.kube.watches import Watches

log = structlog.get_logger(__name__)

_NAME: Final = "gpusharing-operator"


async def operate(
    *,
    kubeconfig: Path | None,
    driver: str,
    idle_wait: float = IDLE_WAIT,
    listen: Address,
    lease: LeaseName,
    lease_duration: int,
) -> None:
    """Runs until SIGTERM or SIGINT, or until it has to begin anew: one or more errors, which say why."""
    # Objects live long here: looking for garbage after each 700 of them would cost a third of the time.
    gc.set_threshold(50_000, 20, 100)
    # Kopf reads JSON by the standard library. Opaque parameters of a claim may be nested five thousand levels deep, and
    # one such claim must not end the watch of all of them.
    sys.setrecursionlimit(20_000)
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
    store = Store(known, on_change=on_change)
    watches = Watches()
    user_agent = f"{_NAME}/{__version__}"

    async with open_session(credentials) as electors, AsyncExitStack() as ours:
        # A container that starts again has the name of the one before, which may still be there.
        me = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        elector = Elector(
            Api(electors, credentials.server, user_agent=user_agent), lease, me=me, duration=lease_duration
        )
        session = await ours.enter_async_context(open_session(credentials, elector.fence))
        api = Api(session, credentials.server, user_agent=user_agent)
        relists = Relists(known, credentials.server, history=api.history, watches=watches)
        events = Events(api, controller=_NAME, instance=socket.gethostname())
        recorder = EventRecorder(events, metrics)
        writer = Writer(api, store, recorder, metrics)
        loop = Loop(writer, recorder, metrics, changes)
        metrics.watch_store(handlers.WATCHED, store.count)
        metrics.watch_lag(lambda: changes.age)
        _measure(metrics, elector, loop, writer, watches)
        await ours.enter_async_context(
            serving(
                listen,
                is_alive=lambda: not loop.is_stuck,
                readiness=lambda: _readiness(elector, loop, watches),
                metrics=metrics,
            )
        )
        kubernetes = await patiently(lambda: server_version.require_supported(api))
        log.info("connected", server=credentials.server, kubernetes=kubernetes.program, driver=driver)
        server_version.report_unknown_cel(kubernetes, metrics)
        # Nothing is known before the first list.
        rules = await patiently(lambda: taint_rules.served(api))
        taint_rules.report(rules)
        decider = Decider(
            Setup(driver=driver, minor=kubernetes.minor, idle_wait=idle_wait, has_taint_rules=rules is not None)
        )
        async with elector.leading():
            if rules is not None:
                writer.write_as(Target.DEVICE_TAINT_RULE, rules)
            watched = (*handlers.WATCHED, *([rules] if rules else []))
            versions = await patiently(lambda: listing.prime(api, store, watched), at_most=deafness.GIVES_UP_AFTER)
            await patiently(lambda: guards.prime(api, store), at_most=deafness.GIVES_UP_AFTER)
            async with asyncio.TaskGroup() as tasks:
                works = (
                    loop.run(decider),
                    writer.run(),
                    recorder.run(),
                    *(following.follow(api, store, kind, versions[kind], watches) for kind in FOLLOWED),
                    *guards.following(api, store, watches),
                    audit.after_relists(api, store, relists),
                    audit.after_resumptions(api, relists),
                    audit.now_and_then(api, store, watched),
                    deafness.end_when_deaf(watches),
                    api_server.end_when_changed(api, kubernetes, rules),
                )
                for work in works:
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


def _measure(metrics: Metrics, elector: Elector, loop: Loop, writer: Writer, watches: Watches) -> None:
    metrics.watch_leading(lambda: elector.leads)
    metrics.watch_settled(lambda: loop.is_ready and writer.is_settled)
    metrics.watch_failing(writer.kinds, writer.failing)
    metrics.watch_watches(watches.broken_for)


def _readiness(elector: Elector, loop: Loop, watches: Watches) -> Readiness:
    """One that stands by is ready as well: otherwise no rollout would go on, and no node could be drained."""
    if elector.stands_by:
        return Readiness.STANDING_BY
    is_ready = elector.leads and loop.is_ready and not watches.deaf
    return Readiness.READY if is_ready else Readiness.NOT_READY


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
