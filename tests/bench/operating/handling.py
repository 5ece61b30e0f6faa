"""A process to be measured: Kopf, the store and the decisions, as in the operator.

    python -m bench.operating.handling KUBECONFIG ours|stock|traced

With `stock`, Kopf watches everything by itself, with its own settings, and hands each event to a handler.
When it has caught up it says so. Its writes always succeed, and it ends by telling the CPU time between a claim named
"begin" and one named "end". Not so with `traced`: then it writes as the operator does, and for each change that it sees
when it is idle it tells through how many functions and modules that went until it was idle again.
"""

import asyncio
import gc
import json
import logging
import sys
import time
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import kopf

from bench.operating.process import resident_mib
from bench.operating.trace import Trace
from building import DRIVER, MINOR
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import key_of
from gpusharing.controller import handlers as handlers  # noqa: PLC0414 (Kopf knows them once they are imported)
from gpusharing.controller.event_recorder import EventRecorder
from gpusharing.controller.kopf_session import KopfSession
from gpusharing.controller.loop import Backlog, Loop
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.running import Operator
from gpusharing.controller.watching import guards, listing
from gpusharing.controller.watching.following import HANDLED, WATCHED, follow
from gpusharing.controller.watching.store import Store
from gpusharing.controller.writer import Writer
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.intents import Intent, PatchStatus, RecordEvent, ReplaceSpec
from gpusharing.core.state.cluster_state import Setup
from gpusharing.kube import client_credentials
from gpusharing.kube.credentials import Credentials
from gpusharing.kube.events import Events
from gpusharing.kube.kinds import NODE_SHARINGS, SHARING_POLICIES
from gpusharing.kube.transport import Api, open_session
from gpusharing.kube.watches import Watches


class Pretending:
    """Writes nothing, and tells the store what would have come back."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def want(self, intents: Sequence[Intent]) -> None:
        for intent in intents:
            match intent:
                case ReplaceSpec(before, spec):
                    self._store.apply_written(NODE_SHARINGS, before.model_copy(update=_written(before, spec=spec)))
                case PatchStatus(policy, status):
                    self._store.apply_written(
                        SHARING_POLICIES, policy.model_copy(update=_written(policy, status=status))
                    )

    def record(self, _: RecordEvent) -> None:
        pass


def _written(before: Any, **changes: Any) -> dict[str, Any]:
    version = str(int(before.metadata.resource_version) + 1)
    return {"metadata": replace(before.metadata, resource_version=version), **changes}


class Stopwatch:
    def __init__(self) -> None:
        self.saw_any = asyncio.Event()
        self.ended = asyncio.Event()
        self.events = 0
        self._began = 0.0

    def saw(self, item: Any) -> None:
        self.saw_any.set()
        if isinstance(item, ResourceClaim):
            self.events += 1
            if item.metadata.name == "begin":
                self._began, self.events = time.process_time(), 0
            elif item.metadata.name == "end":
                self.ended.set()

    async def tell(self) -> None:
        await _until_idle()
        _say(cpu=time.process_time() - self._began, events=self.events)


async def handle(kubeconfig: Path, how: str) -> None:
    credentials = await client_credentials.load(kubeconfig)
    decider, backlog, stopwatch = Decider(Setup(driver=DRIVER, minor=MINOR)), Backlog(), Stopwatch()

    def on_change(kind: type[Any], *, before: Any | None, after: Any | None) -> None:
        stopwatch.saw(after)
        if after is not None:
            decider.state.put(kind, after)
        elif before is not None:
            decider.state.remove(kind, key_of(before))
        if decider.state.has_changed:
            backlog.add()

    store = Store((*WATCHED, *guards.KINDS), on_change=on_change)
    stop = asyncio.Event()
    async with open_session(credentials) as session, asyncio.TaskGroup() as tasks:
        api = Api(session, credentials.server, user_agent="bench")
        versions = await listing.prime(api, store, WATCHED)
        await guards.prime(api, store)
        kopfs, metrics, pretending = KopfSession(HANDLED), Metrics(), Pretending(store)
        works: list[Coroutine[Any, Any, None]] = []
        if how != "stock":
            works += [follow(api, store, kopfs, kind, version, watches=Watches()) for kind, version in versions.items()]
        if how == "traced":
            recorder = EventRecorder(Events(api, controller="bench", instance="bench"), metrics)
            writer = Writer(api, store, recorder, metrics, undecided_for=lambda: backlog.age)
            works += [writer.run(), recorder.run(), Loop(writer, recorder, metrics, backlog).run(decider)]
        else:
            works.append(Loop(pretending, pretending, metrics, backlog).run(decider))
        running_works = [tasks.create_task(work) for work in works]
        operator = Operator(store, kopfs, is_ready=lambda: True, stop=_nothing)
        running = kopf.operator(
            memo=kopf.Memo(operator=operator),
            registry=_stock(store, credentials) if how == "stock" else None,
            clusterwide=True,
            stop_flag=stop,
        )
        kopfs_task = tasks.create_task(running)
        await _until_idle()
        _say(ready=True, resident=resident_mib("self"))
        if how == "traced":
            await _trace(stopwatch)
        await stopwatch.ended.wait()
        await stopwatch.tell()
        stop.set()
        await kopfs_task
        for task in running_works:
            task.cancel()


async def _trace(stopwatch: Stopwatch) -> NoReturn:
    while True:
        stopwatch.saw_any.clear()
        with Trace() as trace:
            await stopwatch.saw_any.wait()
            await _until_idle()
        _say(functions=trace.functions, modules=trace.modules)


def _stock(store: Store, credentials: Credentials) -> kopf.OperatorRegistry:
    kopf.configure()
    gc.set_threshold(700, 10, 10)
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=credentials.server, aiohttp_session=open_session(credentials))

    for kind in WATCHED:

        async def observe(*, event: kopf.RawEvent, kind: Any = kind, **_: Any) -> None:
            store.apply_event(kind, event["type"], event["object"])

        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=kind.plural)(observe)
    return registry


async def _nothing() -> None:
    pass


async def _until_idle() -> None:
    before = float("-inf")
    while time.process_time() - before > 0.05:
        before = time.process_time()
        await asyncio.sleep(1)


def _say(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    gc.set_threshold(50_000, 20, 100)
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    asyncio.run(handle(Path(sys.argv[1]), sys.argv[2]))
