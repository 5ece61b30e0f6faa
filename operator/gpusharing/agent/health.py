"""The health of the node's GPUs: what was seen and heard of each, put together."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final

import structlog

from gpusharing.agent.hardware.errors import DriverDownError
from gpusharing.agent.hardware.facts import BrokenGpu, EventKind, GpuEvent, Inventory
from gpusharing.agent.records import PreparedDevice, Records
from gpusharing.core.publishing import gpu_health
from gpusharing.core.publishing.gpu_health import Effect, Fault, Finding, Look, Presence, Reason, Trouble
from gpusharing.kube.clock import seconds_since_boot

log = structlog.get_logger(__name__)

_REASONS: Final = {
    EventKind.DOUBLE_BIT_ERROR: Reason.MEMORY_ERROR,
    EventKind.UNAVAILABLE: Reason.UNAVAILABLE,
    EventKind.UNMONITORED: Reason.UNMONITORED,
}
# What leaves something that shows by looking. One that is lost cannot say its name any more.
_TELLING: Final = frozenset(
    {
        EventKind.XID,
        EventKind.DOUBLE_BIT_ERROR,
        EventKind.UNAVAILABLE,
        EventKind.RECOVERY_NEEDED,
        EventKind.LOST,
    }
)
_UNSEEN: Final = Look()


class NodeHealth:
    def __init__(
        self,
        records: Records,
        *,
        problem: Callable[[str], Trouble | None],
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        """`problem`: why a GPU is not as its claims want it."""
        self._records = records
        self._problem = problem
        self._clock = clock
        self._looks: dict[str, Look] = {}
        self._driver_load: int | None = None
        # Until when people are told of it.
        self._news: defaultdict[str, dict[Fault, float]] = defaultdict(dict)

    def looked(self, inventory: Inventory, known: Collection[str]) -> None:
        """`known` are all GPUs that the node has or had."""
        self._driver_load = inventory.driver_load
        answering = {state.board.uuid: state for state in inventory.gpus}
        for uuid in known:
            if state := answering.get(uuid):
                look = Look(ailments=state.ailments, complete=not state.unknown, driver_load=inventory.driver_load)
            else:
                look = _absent(uuid, inventory)
            self._see(uuid, look)

    def driver_is_down(self, error: DriverDownError) -> None:
        for uuid, look in self._looks.items():
            self._see(uuid, replace(look, presence=Presence.DRIVER_DOWN, problem=str(error)))

    def heard(self, events: Iterable[GpuEvent]) -> bool:
        """Whether it is time for a look at the GPUs."""
        # The same again and again says no more.
        different = dict.fromkeys(events)
        for event in different:
            if fault := self._fault(event):
                log.warning("GPU reports", uuid=event.uuid, reason=fault.reason, xid=event.xid, part=event.gpu_instance)
                for uuid in [event.uuid] if event.uuid else list(self._looks):
                    self._remember(uuid, fault)
        return any(event.kind in _TELLING and not event.is_programs_fault for event in different)

    @property
    def lost(self) -> set[str]:
        """Those that nothing can be asked of."""
        return {uuid for uuid, look in self._looks.items() if look.presence is Presence.LOST}

    def findings(self, uuid: str) -> tuple[Finding, ...]:
        look = self._looks.get(uuid, _UNSEEN)
        news = [fault for fault, until in self._news[uuid].items() if until > self._clock()]
        return gpu_health.findings(self._records.history(uuid), look, news=news, trouble=self._problem(uuid))

    def of_device(self, device: PreparedDevice) -> tuple[Finding, ...]:
        """What of it concerns whoever holds this device."""
        found = self.findings(device.uuid)
        return tuple(finding for finding in found if not finding.parts or device.mig_uuid in finding.parts)

    def withheld(self, uuid: str) -> str | None:
        """Why nobody new shall get the GPU."""
        weightiest = next(iter(self.findings(uuid)), None)
        return weightiest.reason if weightiest and weightiest.effect is Effect.NO_SCHEDULE else None

    @property
    def changes_at(self) -> float:
        """When the next news are old."""
        ends = [until for news in self._news.values() for until in news.values() if until > self._clock()]
        return min(ends, default=math.inf)

    def _see(self, uuid: str, look: Look) -> None:
        before = self._looks.get(uuid)
        if before and before.presence is not look.presence:
            log.warning("GPU is otherwise", uuid=uuid, presence=look.presence, problem=look.problem)
        self._looks[uuid] = look
        self._records.put_history(uuid, gpu_health.looked(self._records.history(uuid), look))

    def _remember(self, uuid: str, fault: Fault) -> None:
        if fault.is_remembered:
            self._records.put_history(uuid, gpu_health.reported(self._records.history(uuid), fault))
        else:
            lasts = math.inf if fault.reason is Reason.UNMONITORED else gpu_health.NEWS_FOR
            self._news[uuid][fault] = self._clock() + lasts

    def _fault(self, event: GpuEvent) -> Fault | None:
        part, load = event.gpu_instance, self._driver_load
        if event.xid is not None:
            return gpu_health.fault_of_xid(event.xid, gpu_instance=part, driver_load=load)
        reason = _REASONS.get(event.kind)
        return Fault(reason=reason, gpu_instance=part, driver_load=load) if reason else None


def _absent(uuid: str, inventory: Inventory) -> Look:
    """One that is broken may not be able to say which it is."""
    load = inventory.driver_load
    broken = [gpu for gpu in inventory.broken if gpu.uuid in {uuid, None}]
    silent: BrokenGpu | None = next((gpu for gpu in broken if not gpu.lost), None)
    if silent and not any(gpu.lost for gpu in broken):
        return Look(presence=Presence.SILENT, problem=silent.problem, driver_load=load)
    return Look(presence=Presence.LOST, problem=broken[0].problem if broken else "", driver_load=load)
