"""Events on a NodeSharing: a GPU becomes unhealthy or healthy, a fault was cleared, state files were damaged, removed
files were made again, the agent cannot do its work."""

import asyncio
from typing import Final, NamedTuple

import structlog

from gpusharing.agent.health.conditions import READY, STATE_TRUSTED, find
from gpusharing.agent.problems import Reason
from gpusharing.api.meta import Condition, ConditionStatus, ObjectMeta
from gpusharing.api.sharing.gpu_status import HEALTHY, GpuStatus
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.kube.events import Events, EventType
from gpusharing.kube.kinds import NODE_SHARINGS
from gpusharing.kube.transport import ApiError, UnreachableError

log = structlog.get_logger(__name__)

_OWN: Final = frozenset(reason.value for reason in Reason)


class _Event(NamedTuple):
    type_: EventType
    action: str
    reason: str
    note: str


class HealthEvents:
    def __init__(self, events: Events) -> None:
        self._events = events
        self._queue: asyncio.Queue[tuple[ObjectMeta, _Event]] = asyncio.Queue()
        self.about: ObjectMeta | None = None
        """The NodeSharing, once there is one."""

    def report_changes(self, before: NodeSharing, now: NodeSharingStatus) -> None:
        """By comparing two reports: so an agent that restarts writes no Event twice."""
        was = {gpu.uuid: _is_healthy(gpu) for gpu in before.status.gpus}
        for gpu in now.gpus:
            condition = find(HEALTHY, gpu.conditions)
            if condition and _is_healthy(gpu) != was.get(gpu.uuid, True):
                self._queue.put_nowait((before.metadata, _of_health(gpu, condition)))
        trusted = find(STATE_TRUSTED, now.conditions)
        if (
            trusted
            and trusted.status is ConditionStatus.FALSE
            and trusted != find(STATE_TRUSTED, before.status.conditions)
        ):
            event = _Event(EventType.WARNING, "Recover", trusted.reason, trusted.message)
            self._queue.put_nowait((before.metadata, event))
        last, ready = find(READY, before.status.conditions), find(READY, now.conditions)
        former = last.reason if last else ""
        if ready and ready.reason != former and ready.reason in _OWN:
            self._queue.put_nowait((before.metadata, _Event(EventType.WARNING, "Run", ready.reason, ready.message)))
        elif ready and ready.reason != former and former in _OWN:
            note = f"{former} is over: the agent can do its work again"
            self._queue.put_nowait((before.metadata, _Event(EventType.NORMAL, "Run", "AgentWorks", note)))

    def report_restored(self, note: str) -> None:
        """Others have removed what was ours, and it was made again."""
        if self.about:
            self._queue.put_nowait((self.about, _Event(EventType.WARNING, "Restore", "Restored", note)))

    def report_cleared(self, sharing: NodeSharing, note: str) -> None:
        self._queue.put_nowait((sharing.metadata, _Event(EventType.NORMAL, "Clear", "FaultCleared", note)))

    async def run(self) -> None:
        while True:
            about, event = await self._queue.get()
            try:
                await self._events.record(NODE_SHARINGS, about, **event._asdict())
            except (ApiError, UnreachableError) as error:
                log.warning("event not written", note=event.note, error=str(error))


def _of_health(gpu: GpuStatus, condition: Condition) -> _Event:
    name = f"gpu-{gpu.slot} ({gpu.uuid})"
    if condition.status is ConditionStatus.TRUE:
        return _Event(EventType.NORMAL, "Offer", "GpuHealthy", f"{name} is healthy again")
    return _Event(EventType.WARNING, "Withhold", condition.reason, f"{name} is unhealthy: {condition.message}")


def _is_healthy(gpu: GpuStatus) -> bool:
    condition = find(HEALTHY, gpu.conditions)
    return condition is None or condition.status is ConditionStatus.TRUE
