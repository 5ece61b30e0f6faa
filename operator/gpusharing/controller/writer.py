"""Writes what is pending, beside the loop of decisions: a queue in which each object has one place.

The latest intent for an object counts, and one write of an object is under way at a time. What fails is tried again
with a backoff of its own; what is not pending any more is dropped.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple

import structlog

from gpusharing.controller.event_recorder import EventRecorder
from gpusharing.controller.metrics import Metrics, Result
from gpusharing.controller.targets import KINDS
from gpusharing.controller.watching.store import Store
from gpusharing.core.events.policy_events import draining_events, status_events
from gpusharing.core.figures.evictions import evictions
from gpusharing.core.intents import (
    Create,
    Delete,
    Intent,
    Patch,
    PatchStatus,
    RecordEvent,
    ReplaceSpec,
    Stage,
    Target,
    decided_on,
)
from gpusharing.kube.kinds import NODE_SHARINGS, SHARING_POLICIES, Kind
from gpusharing.kube.merging import merge_patch
from gpusharing.kube.retry import Backoff
from gpusharing.kube.transport import Api, ApiError, UnreachableError

log = structlog.get_logger(__name__)

_OF_A_STAGE: Final = 16
_AT_ONCE: Final = 18
"""Two are left for the other stages: a webhook that takes its time over one kind does not stop the others."""
_BACKOFF: Final = Backoff(0.5, 30.0)
# A watch that works tells within a second what a write has made, or what it has met.
_TOLD_WITHIN: Final = 1.0
_UNSEEN: Final = 5.0

_REMEDIES: Final = {
    404: "if the API server does not serve this kind, apply crds/ again; otherwise look for a webhook that refuses",
    409: "delete the object if somebody else created it; otherwise look for a webhook that refuses",
}
"""Where a conflict lasts."""


class _Key(NamedTuple):
    kind: str
    namespace: str
    name: str


class _State(Enum):
    READY = auto()
    WRITING = auto()
    FAILED = auto()
    """Its time will come, whatever is decided meanwhile."""
    ANSWERED = auto()
    """Written, or overtaken by another writer: the next decision is made on what the object is now."""


@dataclass(slots=True, eq=False)
class _Pending:
    key: _Key
    intent: Intent
    stage: Stage
    state: _State = _State.READY
    is_wanted: bool = True
    answered: str | None = None
    """The version of the object of which a write was answered: no other write of it can succeed."""
    answered_at: float = 0.0
    must_read: bool = False
    """No decision came of the answer, so that the object has to be asked for."""
    read: str | None = None
    """The version of which the object was asked for in vain: no decision came of that either."""
    unconfirmed: Intent | None = None
    """A write that failed, perhaps only on the way back."""
    delays: Iterator[float] = field(default_factory=lambda: iter(_BACKOFF))
    timer: asyncio.TimerHandle | None = None


class Writer:
    def __init__(
        self, api: Api, store: Store, recorder: EventRecorder, metrics: Metrics, *, undecided_for: Callable[[], float]
    ) -> None:
        """`undecided_for`: the age of the oldest change that is not decided on yet, in seconds."""
        self._api = api
        self._store = store
        self._recorder = recorder
        self._metrics = metrics
        self._undecided_for = undecided_for
        self._kinds = dict(KINDS)
        self._pending: dict[_Key, _Pending] = {}
        self._ready: dict[Stage, OrderedDict[_Key, _Pending]] = {stage: OrderedDict() for stage in Stage}
        self._busy: Counter[Stage] = Counter()
        self._takes_newest = False
        self._tasks: asyncio.TaskGroup | None = None

    def write_as(self, target: Target, kind: Kind[Any]) -> None:
        """For a kind of which the API server has another version."""
        self._kinds[target] = kind

    @property
    def is_settled(self) -> bool:
        """Whether nothing is pending."""
        return not self._pending

    @property
    def kinds(self) -> list[str]:
        """Those of which it writes objects."""
        return sorted(KINDS.keys() - {Target.RESOURCE_CLAIM, Target.POD})

    def failing(self, kind: str) -> int:
        """How many objects of a kind could not be written when that was tried last."""
        return sum(pending.key.kind == kind and pending.state is _State.FAILED for pending in self._pending.values())

    def want(self, intents: Iterable[Intent]) -> None:
        """Takes all that is pending; whatever else is queued is dropped."""
        wanted = {_key(intent): intent for intent in intents}
        for pending in [pending for key, pending in self._pending.items() if key not in wanted]:
            self._drop(pending)
        new = [intent for key, intent in wanted.items() if self._put(key, intent)]
        self._announce(new)
        self._work_on()

    async def run(self) -> None:
        """Without end."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                self._work_on()
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    # ------------------------------------------------------------------------------------------------------ the queue

    def _put(self, key: _Key, intent: Intent) -> bool:
        """Whether it is another intent than the one before."""
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _Pending(key, intent, intent.stage)
            self._make_ready(pending)
            return True
        pending.is_wanted = True
        if pending.intent is intent or pending.intent == intent:
            return False
        self._confirm(pending)
        pending.intent = intent
        if pending.state is _State.READY or (pending.state is _State.ANSWERED and _version(intent) != pending.answered):
            self._make_ready(pending)
        return True

    def _drop(self, pending: _Pending) -> None:
        if pending.state is _State.WRITING:
            pending.is_wanted = False
            return
        self._leave_queue(pending)
        self._forget(pending)

    def _forget(self, pending: _Pending) -> None:
        self._confirm(pending)
        del self._pending[pending.key]

    def _make_ready(self, pending: _Pending) -> None:
        """It is the newest now."""
        self._leave_queue(pending)
        pending.state, pending.stage = _State.READY, pending.intent.stage
        self._ready[pending.stage][pending.key] = pending

    def _leave_queue(self, pending: _Pending) -> None:
        self._ready[pending.stage].pop(pending.key, None)
        if pending.timer is not None:
            pending.timer.cancel()
            pending.timer = None

    def _wait(self, pending: _Pending, state: _State, seconds: float) -> None:
        pending.state = state
        pending.timer = asyncio.get_running_loop().call_later(seconds, self._go_on, pending)

    def _go_on(self, pending: _Pending) -> None:
        pending.must_read = pending.answered is not None
        if pending.must_read and self._is_undecided(pending):
            self._wait(pending, _State.ANSWERED, _UNSEEN)
            return
        self._make_ready(pending)
        self._work_on()

    def _is_undecided(self, pending: _Pending) -> bool:
        """Whether what the watch told after the answer may still wait for its decision: a round may be long."""
        return self._undecided_for() > time.monotonic() - pending.answered_at - _TOLD_WITHIN

    def _take(self) -> _Pending | None:
        """From the first stage that has anything ready: the oldest and the newest by turns. So a single change waits
        for no thousand others, nor these for all that comes after them."""
        for of, ready in self._ready.items():
            if ready and self._busy[of] < _OF_A_STAGE:
                self._takes_newest = not self._takes_newest
                _, pending = ready.popitem(last=self._takes_newest)
                pending.state = _State.WRITING
                self._busy[of] += 1
                return pending
        return None

    def _work_on(self) -> None:
        while self._tasks is not None and self._busy.total() < _AT_ONCE and (pending := self._take()) is not None:
            self._tasks.create_task(self._work(pending))

    async def _work(self, pending: _Pending | None) -> None:
        while pending is not None:
            of = pending.stage
            try:
                await (self._read(pending) if pending.must_read else self._write(pending))
            finally:
                self._busy[of] -= 1
            pending = self._take()

    # ------------------------------------------------------------------------------------------------------- requests

    async def _write(self, pending: _Pending) -> None:
        intent = pending.intent
        result = await self._result(pending, intent)
        self._metrics.applied(intent, result)
        if result is not Result.CONFLICT:
            pending.unconfirmed = intent if result is Result.FAILED else None
        if not pending.is_wanted:
            self._forget(pending)
        elif result is Result.FAILED:
            pending.answered = None
            self._wait(pending, _State.FAILED, next(pending.delays))
        else:
            if result is Result.WRITTEN:
                pending.delays, pending.read = iter(_BACKOFF), None
            pending.answered, pending.answered_at = _version(intent), time.monotonic()
            self._wait_for_decision(pending, pending.answered, _UNSEEN)

    async def _read(self, pending: _Pending) -> None:
        """No decision has come of the answer to a write. The object as it is now makes one, or the write is tried
        again."""
        pending.must_read = False
        overtaken = pending.answered
        assert overtaken is not None  # noqa: S101 (for mypy: what was not answered is written, not read)
        try:
            await self._take_in(self._kinds[pending.intent.target], pending)
        except (ApiError, UnreachableError) as error:
            log.error("object not read", kind=pending.key.kind, object=pending.key.name, error=str(error))  # noqa: TRY400
        except Exception:
            log.exception("object not read", kind=pending.key.kind, object=pending.key.name)
        else:
            pending.answered, pending.read = None, overtaken
        if pending.is_wanted:
            self._wait_for_decision(pending, overtaken, next(pending.delays))
        else:
            self._forget(pending)

    def _wait_for_decision(self, pending: _Pending, overtaken: str, at_most: float) -> None:
        """No write of the version `overtaken` can succeed. One of another may have been decided meanwhile."""
        if _version(pending.intent) != overtaken:
            self._make_ready(pending)
        else:
            self._wait(pending, _State.ANSWERED, at_most)

    async def _take_in(self, kind: Kind[Any], pending: _Pending) -> None:
        _, namespace, name = pending.key
        try:
            value = await self._api.get(kind.as_json(), name, namespace)
            self._store.apply(kind, value)
        except ApiError as error:
            if error.status != 404:
                raise
            before = decided_on(pending.intent)
            uid = before.uid if before else ""
            self._store.remove(kind, {"metadata": {"name": name, "namespace": namespace, "uid": uid}})

    async def _result(self, pending: _Pending, intent: Intent) -> Result:
        verb, (kind, _, name) = type(intent).__name__, pending.key
        try:
            await self._send(intent)
        except ApiError as error:
            if error.status in {404, 409} and pending.read != _version(intent):
                log.info("write conflict", intent=verb, kind=kind, object=name, error=str(error))
                return Result.CONFLICT
            remedy = {"remedy": _REMEDIES[error.status]} if error.status in _REMEDIES else {}
            log.error("write refused", intent=verb, kind=kind, object=name, error=str(error), **remedy)  # noqa: TRY400
        except UnreachableError as error:
            log.error("write failed", intent=verb, kind=kind, object=name, error=str(error))  # noqa: TRY400
        except Exception:
            log.exception("write failed", intent=verb, kind=kind, object=name)
        else:
            log.info("object written", intent=verb, kind=kind, object=name)
            return Result.WRITTEN
        return Result.FAILED

    async def _send(self, intent: Intent) -> None:
        kind = self._kinds[intent.target]
        match intent:
            case ReplaceSpec(before=before, spec=spec):
                body = {"metadata": before.metadata.for_update(), "spec": spec.to_json()}
                # Of thousands of nodes at once: what became of them is read once, as the watch tells it.
                await self._api.put(NODE_SHARINGS, before.metadata.name, body)
                self._tell(intent)
            case PatchStatus(before=before, status=status):
                patch = {
                    "metadata": {"resourceVersion": before.metadata.resource_version},
                    "status": merge_patch(before.status.to_json(), status.to_json()),
                }
                policy = await self._api.merge_patch(kind, before.metadata.name, patch, subresource="status")
                self._store.apply_written(kind, policy)
                self._tell(intent)
            case Create(body=body):
                namespace = body["metadata"].get("namespace", "")
                self._store.apply_created(kind, await self._api.create(kind, body, namespace))
            case Patch(before=metadata, body=body):
                patch = body | {"metadata": body.get("metadata", {}) | {"resourceVersion": metadata.resource_version}}
                written = await self._api.merge_patch(kind, metadata.name, patch, namespace=metadata.namespace)
                self._store.apply_written(kind, written)
            case Delete(before=metadata):
                await self._api.delete(kind, metadata.name, uid=metadata.uid, namespace=metadata.namespace)

    # --------------------------------------------------------------------------------------------------------- Events

    def _announce(self, intents: Iterable[Intent]) -> None:
        specs = [intent for intent in intents if isinstance(intent, ReplaceSpec) and intent.notices]
        if specs:
            policies = {policy.metadata.name: policy.metadata for policy in self._store.all(SHARING_POLICIES)}
            self._record(draining_events(specs, policies))

    def _confirm(self, pending: _Pending) -> None:
        """Where another decision comes because the write without an answer was made: its Events belong to it."""
        if pending.unconfirmed is not None and self._is_written(pending.unconfirmed):
            self._tell(pending.unconfirmed)
            pending.unconfirmed = None

    def _is_written(self, intent: Intent) -> bool:
        if not isinstance(intent, ReplaceSpec | PatchStatus):
            return False
        before = intent.before.metadata
        there = self._store.get(self._kinds[intent.target], before.name)
        if there is None or there.metadata.uid != before.uid:
            return False
        return bool(there.spec == intent.spec if isinstance(intent, ReplaceSpec) else there.status == intent.status)

    def _tell(self, intent: Intent) -> None:
        """It is written."""
        events = _events(intent)
        self._metrics.evicting(evictions(events))
        self._record(events)

    def _record(self, events: Iterable[RecordEvent]) -> None:
        for event in events:
            self._recorder.record(event)


def _key(intent: Intent) -> _Key:
    match intent:
        case Create(target=target, body=body):
            return _Key(target, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        case ReplaceSpec(before=before) | PatchStatus(before=before):
            return _Key(intent.target, "", before.metadata.name)
        case Patch(target=target, before=metadata) | Delete(target=target, before=metadata):
            return _Key(target, metadata.namespace, metadata.name)


def _version(intent: Intent) -> str:
    before = decided_on(intent)
    return before.resource_version if before else ""


def _events(intent: Intent) -> Sequence[RecordEvent]:
    """Those that are recorded once it is written."""
    match intent:
        case ReplaceSpec(notices=notices):
            return notices
        case PatchStatus(before=before, status=status):
            return status_events(before, status)
        case _:
            return ()
