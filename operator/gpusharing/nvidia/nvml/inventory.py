"""Everything that can be found out about the GPUs of a node. What is broken on one hides nothing of the others."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pynvml

from gpusharing.nvidia import sysfs
from gpusharing.nvidia.errors import DriverDownError, GpuLostError, HardwareError
from gpusharing.nvidia.facts import Ailment, BrokenGpu, GpuState, Inventory
from gpusharing.nvidia.nvml import ailments, boards, compute_mode, instances, mig_mode, processes
from gpusharing.nvidia.nvml.notes import Notes
from gpusharing.nvidia.nvml.session import Device, Session


class Slot(NamedTuple):
    """A place in the driver's count, and the GPU that says it is there."""

    number: int
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What the driver counts."""

    driver: str
    cuda: tuple[int, int]
    slots: tuple[Slot, ...]
    broken: tuple[BrokenGpu, ...]


class InventoryReader:
    """Reads the node in three steps, so that each GPU is read in the thread of its own: `count`, `read`, `finish`."""

    def __init__(self, session: Session, *, sysfs_root: Path) -> None:
        self._session = session
        self._sysfs = sysfs_root
        self._complete = True
        self._unknown: frozenset[tuple[str, tuple[str, ...]]] = frozenset()
        self._lasting = self._unknown
        """What a new session could not find out either."""

    def count(self) -> Count:
        if not self._complete:
            # A GPU that has come back is seen by new sessions only.
            self._lasting = self._unknown
            self._session.renew()
        return self._session.repeatable(self._count)

    def read(self, slot: Slot, count: Count) -> GpuState | BrokenGpu:
        try:
            return self._session.repeatable(lambda: self._state(self._session.gpu(slot.uuid), count))
        except DriverDownError:
            raise
        except HardwareError as error:
            return _broken(slot.number, slot.uuid, error)

    def finish(self, count: Count, found: Iterable[GpuState | BrokenGpu]) -> Inventory:
        read = list(found)
        broken = [*count.broken, *(gpu for gpu in read if isinstance(gpu, BrokenGpu))]
        gpus = tuple(gpu for gpu in read if isinstance(gpu, GpuState))
        self._unknown = frozenset((gpu.board.uuid, gpu.unknown) for gpu in gpus if gpu.unknown)
        self._complete = not broken and self._unknown <= self._lasting
        return Inventory(
            gpus=gpus,
            broken=tuple(sorted(broken, key=lambda gpu: gpu.index)),
            driver_load=sysfs.driver_load(self._sysfs),
        )

    def _count(self) -> Count:
        driver = self._session.ask(pynvml.nvmlSystemGetDriverVersion)
        cuda = self._session.ask(pynvml.nvmlSystemGetCudaDriverVersion)
        count = self._session.ask(pynvml.nvmlDeviceGetCount)
        found = [self._slot(index) for index in range(count)]
        return Count(
            driver=driver,
            cuda=(cuda // 1000, cuda % 1000 // 10),
            slots=tuple(one for one in found if isinstance(one, Slot)),
            broken=tuple(one for one in found if isinstance(one, BrokenGpu)),
        )

    def _slot(self, index: int) -> Slot | BrokenGpu:
        try:
            handle = self._session.ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            return Slot(index, self._session.ask(pynvml.nvmlDeviceGetUUID, handle))
        except DriverDownError:
            raise
        except HardwareError as error:
            return _broken(index, None, error)

    def _state(self, gpu: Device, count: Count) -> GpuState:
        notes = Notes()
        board = boards.read(gpu, driver=count.driver, cuda=count.cuda, sysfs_root=self._sysfs, notes=notes)
        profiles = {profile.id: profile for profile in board.mig.profiles} if board.mig else {}
        mode = notes.attempt("MIG mode", lambda: mig_mode.read(gpu), otherwise=None)
        return GpuState(
            board=board,
            compute_mode=notes.attempt("compute mode", lambda: compute_mode.read(gpu), otherwise=None),
            mig_mode=mode,
            instances=notes.attempt(
                "MIG instances",
                lambda: tuple(instances.read(gpu, profiles)) if mode and mode.current else (),
                otherwise=(),
            ),
            processes=notes.attempt("processes", lambda: processes.read(gpu), otherwise=()),
            ailments=tuple(_ailments(gpu, notes)),
            unknown=tuple(notes.texts),
        )


def _broken(index: int, uuid: str | None, error: HardwareError) -> BrokenGpu:
    return BrokenGpu(index=index, uuid=uuid, problem=str(error), lost=isinstance(error, GpuLostError))


def _ailments(gpu: Device, notes: Notes) -> Iterator[Ailment]:
    nothing: tuple[Ailment, ...] = ()
    yield from notes.attempt("broken memory", lambda: ailments.of_memory(gpu), otherwise=nothing)
    yield from notes.attempt("recovery", lambda: ailments.needed_recovery(gpu), otherwise=nothing)
