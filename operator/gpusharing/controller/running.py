"""All parts of the operator but Kopf, put together."""

import asyncio
import gc
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import kopf
import structlog

from gpusharing import __version__
from gpusharing.api import names
from gpusharing.api.meta import key_of
from gpusharing.api.sharing.node_spec import IDLE_WAIT
from gpusharing.controller import api_server, endpoints
from gpusharing.controller.api_server import ApiServer
from gpusharing.controller.dry_runs import DryRuns
from gpusharing.controller.endpoints import Readiness
from gpusharing.controller.event_recorder import EventRecorder
from gpusharing.controller.kopf_session import KopfSession
from gpusharing.controller.loop import Backlog, Loop
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.seen_guards import SeenGuards
from gpusharing.controller.seen_tenants import SeenTenants
from gpusharing.controller.watching import audit, deafness, following, guards, listing
from gpusharing.controller.watching.following import HANDLED, WATCHED
from gpusharing.controller.watching.store import Store
from gpusharing.controller.writer import Writer
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.intents import Target
from gpusharing.core.state.cluster_state import Setup
from gpusharing.kube import client_credentials
from gpusharing.kube.address import Address
from gpusharing.kube.elector import Elector, LeaseName
from gpusharing.kube.events import Events
from gpusharing.kube.http_server import serving
from gpusharing.kube.kinds import Kind
from gpusharing.kube.retry import patiently
from gpusharing.kube.transport import Api, open_session
from gpusharing.kube.watches import DEAF_AFTER, Watches

T = TypeVar("T")

log = structlog.get_logger(__name__)

_USER_AGENT: Final = f"{names.OPERATOR}/{__version__}"
_LEASE: Final = LeaseName(namespace=names.NAMESPACE, name=names.OPERATOR)


_KNOWN: Final = (*WATCHED, *api_server.TAINT_RULES, *guards.KINDS)
_GUARDS: Final = {kind.model for kind in guards.KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    kubeconfig: Path | None
    """None: the pod's own ServiceAccount."""
    listen: Address
    idle_wait: float = IDLE_WAIT
    lease: LeaseName = _LEASE
    lease_duration: int = 15


@dataclass(frozen=True, slots=True)
class Operator:
    """What Kopf's handlers work with."""

    store: Store
    session: KopfSession
    is_ready: Callable[[], bool]
    stop: Callable[[], Awaitable[None]]
    """Kopf waits at its end for each task that began after its own: ours go first."""

    def hear(self, kind: Kind[Any], event: kopf.RawEvent) -> None:
        """From the handler of the kind."""
        self.session.mark_heard(kind, event["object"])
        self.store.apply_event(kind, event["type"], event["object"])


@asynccontextmanager
async def running(options: Options) -> AsyncIterator[Operator]:
    """Begins when this process leads, and knows all that there is. Ends with errors when it has to begin anew: another
    one leads, history went back, the cluster cannot be read, or the API server is another one."""
    # Objects live long here: looking for garbage after each 700 of them would cost a third of the time.
    gc.set_threshold(50_000, 20, 100)
    credentials = await client_credentials.load(options.kubeconfig)
    metrics, backlog, watches, kopfs = Metrics(), Backlog(), Watches(), KopfSession(HANDLED)

    def on_change(kind: type[Any], *, before: Any | None, after: Any | None) -> None:
        if after is not None:
            decider.state.put(kind, after)
        elif before is not None:
            decider.state.remove(kind, key_of(before))
        if kind in _GUARDS:
            closing.look()
            tenants.look()
        if decider.state.has_changed:
            backlog.add()

    def undecided_for() -> float:
        return max(backlog.age, kopfs.age)

    store = Store(_KNOWN, on_change=on_change, unreadables=metrics.unreadables)

    async with open_session(credentials) as electors, AsyncExitStack() as parts:
        # A container that starts again has the name of the one before, which may still be there.
        me = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        electing = Api(electors, credentials.server, user_agent=_USER_AGENT)
        elector = Elector(electing, options.lease, me=me, duration=options.lease_duration)

        session = await parts.enter_async_context(open_session(credentials, elector.fence))
        api = Api(session, credentials.server, user_agent=_USER_AGENT, unreadables=metrics.unreadables)
        recorder = EventRecorder(Events(api, controller=names.OPERATOR, instance=socket.gethostname()), metrics)
        writer = Writer(api, store, recorder, metrics, undecided_for=undecided_for)
        loop = Loop(writer, recorder, metrics, backlog)

        metrics.watch_lag(undecided_for)
        metrics.watch_leading(lambda: elector.leads)
        _measure(metrics, store, loop, writer, watches)
        pages = endpoints.pages(
            is_alive=lambda: not loop.is_stuck,
            readiness=lambda: _readiness(elector, loop, watches, kopfs),
            metrics=metrics,
        )
        await parts.enter_async_context(serving(options.listen, pages))

        server = await _connected(api, credentials.server, metrics)
        rules = server.taint_rules
        # Nothing is known before the first list.
        decider = Decider(
            Setup(
                driver=names.DRIVER,
                minor=server.minor,
                idle_wait=options.idle_wait,
                has_taint_rules=rules is not None,
            )
        )
        dry_runs = DryRuns(api, namespace=options.lease.namespace)
        closing = SeenGuards(api, store, dry_runs, on_seen=_deciding(backlog, decider.state.see_fence))
        tenants = SeenTenants(store, dry_runs, on_seen=_deciding(backlog, decider.state.see_entries))
        watches.on_recovery = tenants.ask_again
        _measure_closing(metrics, closing)
        async with elector.leading():
            metrics.watch_figures(lambda: decider.figures if elector.leads else None)
            if rules is not None:
                writer.write_as(Target.DEVICE_TAINT_RULE, rules)
            watched = (*WATCHED, *([rules] if rules else []))
            versions = await _primed(api, store, watched, tenants)
            async with asyncio.TaskGroup() as tasks:
                works = (
                    loop.run(decider),
                    writer.run(),
                    recorder.run(),
                    *(following.follow(api, store, kopfs, kind, versions[kind], watches=watches) for kind in watched),
                    *guards.following(api, store, watches),
                    closing.run(),
                    tenants.run(),
                    audit.now_and_then(api, store, watched),
                    audit.read_unlisted(api, store, watched),
                    deafness.end_when_deaf(watches, kopfs),
                    api_server.end_when_changed(api, server),
                )
                for work in works:
                    parts.push_async_callback(_cancel, tasks.create_task(work))
                yield Operator(store, kopfs, lambda: loop.is_ready, parts.aclose)


def _deciding(backlog: Backlog, takes_in: Callable[[T], None]) -> Callable[[T], None]:
    """What was seen is taken in, and decided on."""

    def on_seen(seen: T) -> None:
        takes_in(seen)
        backlog.add()

    return on_seen


async def _connected(api: Api, url: str, metrics: Metrics) -> ApiServer:
    server = await patiently(lambda: api_server.ask(api))
    log.info("connected", server=url, kubernetes=server.program)
    server.report_unknown_cel(metrics)
    server.report_missing_taint_rules()
    return server


async def _primed(
    api: Api, store: Store, watched: Collection[Kind[Any]], tenants: SeenTenants
) -> Mapping[Kind[Any], str]:
    """The versions of the lists that the store has taken in."""
    await patiently(lambda: guards.prime(api, store), at_most=deafness.GIVES_UP_AFTER)
    async with asyncio.TaskGroup() as first:
        first.create_task(tenants.look_at_first())
        return await patiently(lambda: listing.prime(api, store, watched), at_most=deafness.GIVES_UP_AFTER)


def _measure_closing(metrics: Metrics, closing: SeenGuards) -> None:
    metrics.watch_closing(
        lambda: closing.entries(closing=True), lambda: closing.entries(closing=False), lambda: closing.age
    )


def _measure(metrics: Metrics, store: Store, loop: Loop, writer: Writer, watches: Watches) -> None:
    metrics.watch_store(WATCHED, store.count)
    metrics.watch_settled(lambda: loop.is_ready and writer.is_settled)
    metrics.watch_failing(writer.kinds, writer.failing)
    metrics.watch_watches(watches.broken_for)


def _readiness(elector: Elector, loop: Loop, watches: Watches, kopfs: KopfSession) -> Readiness:
    """One that stands by is ready as well: otherwise no rollout would go on, and no node could be drained."""
    if elector.stands_by:
        return Readiness.STANDING_BY
    is_ready = elector.leads and loop.is_ready and not watches.deaf and kopfs.age <= DEAF_AFTER
    return Readiness.READY if is_ready else Readiness.NOT_READY


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=1)
