"""Events for people who look at a NodeSharing: a GPU that has become ill, and one that is well again; files that were
damaged. Each once."""

import asyncio
from typing import NamedTuple

import structlog

from gpusharing.agent.conditions import STATE_TRUSTED, named
from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.core.publishing.gpu_health import HEALTHY
from gpusharing.kube.events import Events, EventType
from gpusharing.kube.kinds import NODE_SHARINGS
from gpusharing.kube.transport import ApiError, UnreachableError

log = structlog.get_logger(__name__)


class _Told(NamedTuple):
    type_: EventType
    action: str
    reason: str
    note: str


class HealthEvents:
    def __init__(self, events: Events) -> None:
        self._events = events
        self._queue: asyncio.Queue[tuple[NodeSharing, _Told]] = asyncio.Queue()

    def tell(self, before: NodeSharing, now: NodeSharingStatus) -> None:
        """Of what has changed between two reports: so an agent that starts anew tells nothing again."""
        was = {gpu.uuid: _is_healthy(gpu) for gpu in before.status.gpus}
        for gpu in now.gpus:
            told = named(HEALTHY, gpu.conditions)
            if told and _is_healthy(gpu) != was.get(gpu.uuid, True):
                self._queue.put_nowait((before, _of_health(gpu, told)))
        trusted = named(STATE_TRUSTED, now.conditions)
        if (
            trusted
            and trusted.status is ConditionStatus.FALSE
            and trusted != named(STATE_TRUSTED, before.status.conditions)
        ):
            told_of_state = _Told(EventType.WARNING, "Recover", trusted.reason, trusted.message)
            self._queue.put_nowait((before, told_of_state))

    async def run(self) -> None:
        while True:
            sharing, told = await self._queue.get()
            try:
                await self._events.record(NODE_SHARINGS, sharing.metadata, **told._asdict())
            except (ApiError, UnreachableError) as error:
                log.warning("event not written", note=told.note, error=str(error))


def _of_health(gpu: GpuStatus, told: Condition) -> _Told:
    name = f"gpu-{gpu.slot} ({gpu.uuid})"
    if told.status is ConditionStatus.TRUE:
        return _Told(EventType.NORMAL, "Offer", "GpuHealthy", f"{name} is well again")
    return _Told(EventType.WARNING, "Withhold", told.reason, f"{name} gets no new claims: {told.message}")


def _is_healthy(gpu: GpuStatus) -> bool:
    told = named(HEALTHY, gpu.conditions)
    return told is None or told.status is ConditionStatus.TRUE
