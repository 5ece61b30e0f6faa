"""A process to be measured: Kopf, the store and the decisions, as in the operator, with writes that always succeed.

    python -m bench.operating.handling KUBECONFIG ours|stock

With `stock`, Kopf runs with its own settings and calls a handler for each event; nothing is set to save it work.
When it has caught up it says so. It ends by telling the CPU time between a claim named "begin" and one named "end".
"""

import asyncio
import gc
import json
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
from gpusharing.controller import handlers, kopf_settings
from gpusharing.controller.loop import Changes, Loop
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.watching import listing
from gpusharing.controller.watching.following import FOLLOWED, follow
from gpusharing.controller.watching.relists import Relists
from gpusharing.controller.watching.store import Store
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.intents import Intent, PatchStatus, RecordEvent, ReplaceSpec
from gpusharing.core.state.cluster_state import Setup, key_of
from gpusharing.kube import client_credentials
from gpusharing.kube.history import History
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
                    self._store.written(NODE_SHARINGS, before.model_copy(update=_written(before, spec=spec)))
                case PatchStatus(policy, status):
                    self._store.written(SHARING_POLICIES, policy.model_copy(update=_written(policy, status=status)))

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

    store = Store(handlers.WATCHED, on_change=on_change)
    watches = Watches()
    relists = Relists(handlers.WATCHED, credentials.server, history=History(), watches=watches)
    async with open_session(credentials) as session:
        versions = await listing.prime(Api(session, credentials.server, user_agent="bench"), store, handlers.WATCHED)
    stop = asyncio.Event()
    handled = [kind for kind in handlers.WATCHED if how == "stock" or kind not in FOLLOWED]
    registry = handlers.registry(handled, store, credentials, relists, on_stop=_nothing)
    settings = kopf_settings.settings()
    if how == "stock":
        registry, settings = _stock(store, credentials, relists)
    async with open_session(credentials) as session, asyncio.TaskGroup() as tasks:
        api = Api(session, credentials.server, user_agent="bench")
        follows = [
            tasks.create_task(follow(api, store, kind, version, watches))
            for kind, version in versions.items()
            if kind not in handled
        ]
        pretending = Pretending(store)
        loop = tasks.create_task(Loop(pretending, pretending, Metrics(), changes).run(decider))
        kopfs = tasks.create_task(kopf.operator(registry=registry, settings=settings, clusterwide=True, stop_flag=stop))
        for _ in handled:
            await relists.next()
        await _until_idle()
        _say(ready=True, resident=resident_mib("self"))
        await stopwatch.ended.wait()
        await stopwatch.tell()
        stop.set()
        await kopfs
        for task in (loop, *follows):
            task.cancel()


def _stock(store: Store, credentials: Any, relists: Relists) -> tuple[kopf.OperatorRegistry, kopf.OperatorSettings]:
    kopf.configure()
    gc.set_threshold(700, 10, 10)
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="login")(handlers.Logins(credentials, relists).login)
    for kind in handlers.WATCHED:
        takes_in = handlers.taking_in(store, kind)

        async def observe(*, event: kopf.RawEvent, takes_in: Any = takes_in, **_: Any) -> None:
            takes_in(event=event)

        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=kind.plural)(observe)
    return registry, kopf.OperatorSettings()


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
    kopf_settings.quieten()
    asyncio.run(handle(Path(sys.argv[1]), sys.argv[2]))
