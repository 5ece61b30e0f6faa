"""A process to be measured: Kopf, the store and the decisions, as in the operator, with writes that always succeed.

    python -m bench.operating.handling KUBECONFIG ours|stock

With `stock`, Kopf watches everything by itself, with its own settings, and hands each event to a handler.
When it has caught up it says so. It ends by telling the CPU time between a claim named "begin" and one named "end".
"""

import asyncio
import gc
import json
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import kopf

from bench.operating.process import resident_mib
from building import DRIVER, MINOR
from gpusharing.api.dra import ResourceClaim
from gpusharing.controller import handlers as handlers  # noqa: PLC0414 (Kopf knows them once they are imported)
from gpusharing.controller.kopf_session import KopfSession
from gpusharing.controller.loop import Changes, Loop
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.running import Operator
from gpusharing.controller.watching import listing
from gpusharing.controller.watching.following import HANDLED, WATCHED, follow
from gpusharing.controller.watching.store import Store
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.intents import Intent, PatchStatus, RecordEvent, ReplaceSpec
from gpusharing.core.state.cluster_state import Setup, key_of
from gpusharing.kube import client_credentials
from gpusharing.kube.credentials import Credentials
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
        self.ended = asyncio.Event()
        self.events = 0
        self._began = 0.0

    def saw(self, item: Any) -> None:
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
    decider, changes, stopwatch = Decider(Setup(driver=DRIVER, minor=MINOR)), Changes(), Stopwatch()

    def on_change(kind: type[Any], *, before: Any | None, after: Any | None) -> None:
        stopwatch.saw(after)
        if after is not None:
            decider.state.put(kind, after)
        elif before is not None:
            decider.state.remove(kind, key_of(before))
        if decider.state.has_changed:
            changes.happened()

    store = Store(WATCHED, on_change=on_change)
    stop = asyncio.Event()
    async with open_session(credentials) as session, asyncio.TaskGroup() as tasks:
        api = Api(session, credentials.server, user_agent="bench")
        versions = await listing.prime(api, store, WATCHED)
        kopfs, pretending = KopfSession(HANDLED), Pretending(store)
        works = [tasks.create_task(Loop(pretending, pretending, Metrics(), changes).run(decider))]
        if how == "ours":
            follows = (
                follow(api, store, kopfs, kind, version, watches=Watches()) for kind, version in versions.items()
            )
            works += [tasks.create_task(one) for one in follows]
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
        await stopwatch.ended.wait()
        await stopwatch.tell()
        stop.set()
        await kopfs_task
        for task in works:
            task.cancel()


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
