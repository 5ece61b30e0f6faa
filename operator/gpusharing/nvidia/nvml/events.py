"""What GPUs report by themselves: errors, and changes by others.

Asked for again and again, rather than awaited: so the session can be renewed at any time, and a driver that hangs is
noticed here as well. Nothing is lost by that: the driver keeps events until somebody asks.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import pynvml

from gpusharing.nvidia import sysfs
from gpusharing.nvidia.errors import (
    DriverDownError,
    GpuLostError,
    HardwareError,
    NothingHappenedError,
)
from gpusharing.nvidia.gpu_event import EventKind, GpuEvent
from gpusharing.nvidia.nvml import ailments, instances, names
from gpusharing.nvidia.nvml.session import Device, Session

T = TypeVar("T")

_KINDS: Final = {
    pynvml.nvmlEventTypeXidCriticalError: EventKind.XID,
    pynvml.nvmlEventTypeDoubleBitEccError: EventKind.DOUBLE_BIT_ERROR,
    pynvml.nvmlEventMigConfigChange: EventKind.MIG_CHANGED,
    pynvml.nvmlEventTypeGpuUnavailableError: EventKind.UNAVAILABLE,
    pynvml.nvmlEventTypeGpuRecoveryAction: EventKind.RECOVERY_NEEDED,
}
_WANTED: Final = sum(_KINDS)
# In milliseconds. No driver is known to take zero for "for ever", but this one is sure.
_SHORTEST_WAIT: Final = 1


class EventWatch:
    def __init__(self, session: Session, *, sysfs_root: Path) -> None:
        self._session = session
        self._sysfs = sysfs_root
        session.watchers.append(self)
        self._set: Any = None
        """None: the watch has not begun, or broke off."""
        self._uuids: dict[int, str] = {}
        # Told once, until it is otherwise.
        self._blind_for: frozenset[tuple[EventKind, str | None]] = frozenset()
        self._kept: list[GpuEvent] = []

    def read(self) -> tuple[GpuEvent, ...]:
        """What has happened since the last time; the first time begins the watch."""
        if self._set is None:
            self._register()
        try:
            self._kept.extend(self._waiting())
        except GpuLostError:
            # It does not say which, and may tell nothing of the others any more.
            self._session.ask(pynvml.nvmlEventSetFree, self._set)
            self._register()
        events = tuple(self._with_circumstances(self._kept))
        self._kept = []
        return events

    def before_renewal(self) -> None:
        if self._set is not None:
            with _unless_down():
                self._kept.extend(self._waiting())

    def after_renewal(self) -> None:
        """At once: what happens before is not told."""
        if self._set is not None:
            with _unless_down():
                self._register()

    def _register(self) -> None:
        """For all GPUs that can be watched; of the others this is told."""
        self._set = None
        events = self._session.ask(pynvml.nvmlEventSetCreate)
        self._uuids = {}
        blind_for = set()
        for index in range(self._session.ask(pynvml.nvmlDeviceGetCount)):
            uuid = None
            try:
                gpu = self._session.ask(pynvml.nvmlDeviceGetHandleByIndex, index)
                uuid = self._session.ask(pynvml.nvmlDeviceGetUUID, gpu)
                supported = self._session.ask(pynvml.nvmlDeviceGetSupportedEventTypes, gpu)
                self._session.ask(pynvml.nvmlDeviceRegisterEvents, gpu, supported & _WANTED, events)
                self._uuids[_address(gpu)] = uuid
            except DriverDownError:
                raise
            except GpuLostError:
                blind_for.add((EventKind.LOST, uuid))
            except HardwareError:
                blind_for.add((EventKind.UNMONITORED, uuid))
        new, self._blind_for = blind_for - self._blind_for, frozenset(blind_for)
        self._kept += [GpuEvent(kind=kind, uuid=uuid) for kind, uuid in sorted(new, key=str)]
        self._set = events

    def _waiting(self) -> Iterator[GpuEvent]:
        while True:
            try:
                data = self._session.ask(pynvml.nvmlEventSetWait_v2, self._set, _SHORTEST_WAIT)
            except NothingHappenedError:
                return
            if kind := _KINDS.get(data.eventType):
                yield self._event(kind, data)

    def _event(self, kind: EventKind, data: Any) -> GpuEvent:
        return GpuEvent(
            kind=kind,
            uuid=self._uuid(data.device),
            xid=data.eventData if kind is EventKind.XID else None,
            gpu_instance=names.instance(data.gpuInstanceId),
            compute_instance=names.instance(data.computeInstanceId),
            # Now: the driver may have been loaded anew since the last inspection.
            driver_load=sysfs.driver_load(self._sysfs),
        )

    def _with_circumstances(self, events: Iterable[GpuEvent]) -> Iterator[GpuEvent]:
        """XIDs, with what only the driver knows of them. It is asked when no event is left to read, so that its answer
        is newer than all of them, and once for each GPU, however many XIDs there are."""
        needs_recovery = cache(lambda uuid: self._read(uuid, ailments.needs_recovery))
        places = cache(lambda uuid: self._read(uuid, instances.places) or {})
        for event in events:
            if event.xid is None or event.uuid is None:
                yield event
                continue
            place = None if event.gpu_instance is None else places(event.uuid).get(event.gpu_instance)
            yield replace(event, place=place, needs_recovery=needs_recovery(event.uuid))

    def _read(self, uuid: str, question: Callable[[Device], T]) -> T | None:
        """None: the GPU does not answer."""
        try:
            return question(self._session.gpu(uuid))
        except DriverDownError:
            raise
        except HardwareError:
            return None

    def _uuid(self, gpu: Any) -> str | None:
        """From memory: one that has just been lost cannot say its name. Or it has another handle since it was reset."""
        uuid = self._uuids.get(_address(gpu))
        if uuid is None:
            with _unless_down():
                uuid = self._session.ask(pynvml.nvmlDeviceGetUUID, gpu)
        return uuid


@contextlib.contextmanager
def _unless_down() -> Iterator[None]:
    """What does not work out for one GPU or one question is no trouble here."""
    try:
        yield
    except DriverDownError:
        raise
    except HardwareError:
        pass


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
