"""Events for people who look at a NodeSharing: a GPU that has become ill, and one that is well again. Each once."""

import asyncio

import structlog

from gpusharing.agent.conditions import HEALTHY
from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing import GpuStatus, NodeSharing, NodeSharingStatus
from gpusharing.kube.events import Events, EventType
from gpusharing.kube.kinds import NODE_SHARINGS
from gpusharing.kube.transport import ApiError, UnreachableError

log = structlog.get_logger(__name__)


class HealthEvents:
    def __init__(self, events: Events) -> None:
        self._events = events
        self._queue: asyncio.Queue[tuple[NodeSharing, GpuStatus, Condition]] = asyncio.Queue()

    def tell(self, before: NodeSharing, now: NodeSharingStatus) -> None:
        """Of what has changed between two reports: so an agent that starts anew tells nothing again."""
        was = {gpu.uuid: _is_healthy(gpu) for gpu in before.status.gpus}
        for gpu in now.gpus:
            told = _healthy(gpu)
            if told and _is_healthy(gpu) != was.get(gpu.uuid, True):
                self._queue.put_nowait((before, gpu, told))

    async def run(self) -> None:
        while True:
            sharing, gpu, told = await self._queue.get()
            is_well = told.status is ConditionStatus.TRUE
            message = "is well again" if is_well else f"gets no new claims: {told.message}"
            try:
                await self._events.tell(
                    NODE_SHARINGS,
                    sharing.metadata,
                    type_=EventType.NORMAL if is_well else EventType.WARNING,
                    action="Offer" if is_well else "Withhold",
                    reason="GpuHealthy" if is_well else told.reason,
                    note=f"gpu-{gpu.slot} ({gpu.uuid}) {message}",
                )
            except (ApiError, UnreachableError) as error:
                log.warning("event not written", gpu=gpu.uuid, error=str(error))


def _healthy(gpu: GpuStatus) -> Condition | None:
    return next((condition for condition in gpu.conditions if condition.type == HEALTHY), None)


def _is_healthy(gpu: GpuStatus) -> bool:
    told = _healthy(gpu)
    return told is None or told.status is ConditionStatus.TRUE
