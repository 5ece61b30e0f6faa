"""The health of the node's GPUs: the results of inspections and the reported errors, put together."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final

import structlog

from gpusharing.agent.health.unallocated import UnallocatedClaims
from gpusharing.agent.state.models import PreparedDevice
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.gpu_status import Reason
from gpusharing.core.devices.gpu import MigSupport
from gpusharing.core.publishing import gpu_health
from gpusharing.core.publishing.gpu_health import Fault, Finding, Look, Presence, Trouble
from gpusharing.kube.clock import now, seconds_since_boot
from gpusharing.nvidia.errors import DriverDownError
from gpusharing.nvidia.facts import BrokenGpu, Inventory
from gpusharing.nvidia.gpu_event import EventKind, GpuEvent

log = structlog.get_logger(__name__)

_REASONS: Final = {
    EventKind.DOUBLE_BIT_ERROR: Reason.MEMORY_ERROR,
    EventKind.UNAVAILABLE: Reason.UNAVAILABLE,
    EventKind.UNMONITORED: Reason.UNMONITORED,
}
# After these events, an inspection shows more. A GPU that is lost cannot say its name any more.
_VISIBLE: Final = frozenset(
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
        ignored_xids: Collection[int] = (),
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        """`problem`: why a GPU does not have the settings of its claims. `ignored_xids` withhold no GPU."""
        self._records = records
        self._problem = problem
        self._ignored_xids = frozenset(ignored_xids)
        self._clock = clock
        self.unallocated = UnallocatedClaims(records)
        self._looks: dict[str, Look] = {}
        self._mig: dict[str, MigSupport | None] = {}
        # With the time until which each is reported.
        self._news: defaultdict[str, dict[Fault, float]] = defaultdict(dict)

    def record_inspection(self, inventory: Inventory, known: Collection[str]) -> None:
        """`known` are all GPUs that the node has or had."""
        answering = {state.board.uuid: state for state in inventory.gpus}
        for uuid in known:
            if state := answering.get(uuid):
                self._mig[uuid] = state.board.mig
                look = Look(ailments=state.ailments, complete=not state.unknown, driver_load=inventory.driver_load)
            else:
                look = _absent(uuid, inventory)
            self._record_look(uuid, look)

    def record_driver_down(self, error: DriverDownError) -> None:
        for uuid, look in self._looks.items():
            self._record_look(uuid, replace(look, presence=Presence.DRIVER_DOWN, problem=str(error)))

    def record_events(self, events: Iterable[GpuEvent]) -> bool:
        """Whether the GPUs should be inspected."""
        should_inspect = False
        # The same event many times says no more than once.
        for event in dict.fromkeys(events):
            fault = self._fault(event)
            if fault:
                log.warning(
                    "GPU error reported", uuid=event.uuid, reason=fault.reason, xid=event.xid, part=event.gpu_instance
                )
                for uuid in [event.uuid] if event.uuid else list(self._looks):
                    self._record_fault(uuid, fault, needs_recovery=bool(event.needs_recovery))
            # Tenants cause errors of programs as often as they like.
            is_programs = fault is not None and fault.reason is Reason.PROGRAM_XID
            should_inspect |= event.kind in _VISIBLE and not is_programs
        return should_inspect

    def clear_faults(self, uuid: str, reported_at: str) -> tuple[Fault, ...]:
        """Forgets the faults that were reported then, and returns them."""
        history = self._records.history(uuid)
        faults = tuple(fault for fault in history.faults if fault.reported_at == reported_at)
        if faults:
            self._records.put_history(uuid, gpu_health.forget(history, faults))
        return faults

    @property
    def lost(self) -> set[str]:
        """GPUs that do not answer any question."""
        return {uuid for uuid, look in self._looks.items() if look.presence is Presence.LOST}

    def findings(self, uuid: str) -> tuple[Finding, ...]:
        look = self._looks.get(uuid, _UNSEEN)
        news = [fault for fault, until in self._news[uuid].items() if until > self._clock()]
        return gpu_health.findings(self._records.history(uuid), look, news=news, trouble=self._problem(uuid))

    def of_device(self, device: PreparedDevice) -> tuple[Finding, ...]:
        """The findings that concern the claim of this device."""
        mig = self._mig_support(device.uuid)
        return tuple(
            finding
            for finding in self.findings(device.uuid)
            if (not finding.parts or device.mig_uuid in finding.parts) and finding.concerns(device.device, mig)
        )

    def withheld(self, uuid: str, devices: Iterable[str]) -> dict[str, str]:
        """Why no new claim may get these devices of the GPU; only those of which that is so."""
        found, mig = self.findings(uuid), self._mig_support(uuid)
        reasons = {device: gpu_health.reason_to_withhold(found, device, mig) for device in devices}
        return {device: reason for device, reason in reasons.items() if reason is not None}

    @property
    def changes_at(self) -> float:
        """When the next news are old."""
        ends = [until for news in self._news.values() for until in news.values() if until > self._clock()]
        return min(ends, default=math.inf)

    def _record_look(self, uuid: str, look: Look) -> None:
        before = self._looks.get(uuid)
        if before and before.presence is not look.presence:
            log.warning("GPU presence changed", uuid=uuid, presence=look.presence, problem=look.problem)
        self._looks[uuid] = look
        history = gpu_health.after_inspection(self._records.history(uuid), look)
        # An earlier agent may not have ignored them.
        ignored = [fault for fault in history.faults if fault.xid in self._ignored_xids]
        self._records.put_history(uuid, gpu_health.forget(history, ignored))

    def _record_fault(self, uuid: str, fault: Fault, *, needs_recovery: bool) -> None:
        if fault.is_remembered:
            named = replace(fault, reported_at=now())
            history = gpu_health.remember(self._records.history(uuid), named, needs_recovery=needs_recovery)
            self._records.put_history(uuid, history)
        else:
            lasts = math.inf if fault.reason is Reason.UNMONITORED else gpu_health.NEWS_FOR
            self._news[uuid][fault] = self._clock() + lasts

    def _fault(self, event: GpuEvent) -> Fault | None:
        if event.xid is not None:
            return gpu_health.fault_of_xid(
                event.xid,
                needs_recovery=event.needs_recovery,
                ignored=self._ignored_xids,
                gpu_instance=event.gpu_instance,
                place=event.place,
                driver_load=event.driver_load,
            )
        reason = _REASONS.get(event.kind)
        return Fault(reason=reason, driver_load=event.driver_load) if reason else None

    def _mig_support(self, uuid: str) -> MigSupport | None:
        if uuid not in self._mig and uuid in self._records.missed_gpus:
            return self._records.missed_gpus[uuid].board.mig
        return self._mig.get(uuid)


def _absent(uuid: str, inventory: Inventory) -> Look:
    """A GPU that is broken may not be able to say which one it is."""
    load = inventory.driver_load
    broken = [gpu for gpu in inventory.broken if gpu.uuid in {uuid, None}]
    present: BrokenGpu | None = next((gpu for gpu in broken if not gpu.lost), None)
    if present and not any(gpu.lost for gpu in broken):
        return Look(presence=Presence.NOT_RESPONDING, problem=present.problem, driver_load=load)
    return Look(presence=Presence.LOST, problem=broken[0].problem if broken else "", driver_load=load)
