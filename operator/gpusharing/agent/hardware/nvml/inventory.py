"""Everything that can be found out about the GPUs of a node. What is broken on one hides nothing of the others."""

from collections.abc import Iterator
from pathlib import Path

import pynvml

from gpusharing.agent.hardware import sysfs
from gpusharing.agent.hardware.errors import DriverDownError, GpuLostError, HardwareError
from gpusharing.agent.hardware.facts import Ailment, BrokenGpu, GpuState, Inventory
from gpusharing.agent.hardware.nvml import ailments, boards, compute_mode, instances, mig_mode, processes
from gpusharing.agent.hardware.nvml.notes import Notes
from gpusharing.agent.hardware.nvml.session import Device, Session


class InventoryReader:
    def __init__(self, session: Session, *, sysfs_root: Path) -> None:
        self._session = session
        self._sysfs = sysfs_root
        self._complete = True

    def read(self) -> Inventory:
        if not self._complete:
            # A GPU that has come back is seen by new sessions only.
            self._session.renew()
        found = self._session.repeatable(self._read)
        self._complete = not found.broken and not any(gpu.unknown for gpu in found.gpus)
        return found

    def _read(self) -> Inventory:
        driver = self._session.ask(pynvml.nvmlSystemGetDriverVersion)
        cuda = self._session.ask(pynvml.nvmlSystemGetCudaDriverVersion)
        count = self._session.ask(pynvml.nvmlDeviceGetCount)
        found = [self._gpu(index, driver, (cuda // 1000, cuda % 1000 // 10)) for index in range(count)]
        return Inventory(
            gpus=tuple(gpu for gpu in found if isinstance(gpu, GpuState)),
            broken=tuple(gpu for gpu in found if isinstance(gpu, BrokenGpu)),
            driver_load=sysfs.driver_load(self._sysfs),
        )

    def _gpu(self, index: int, driver: str, cuda: tuple[int, int]) -> GpuState | BrokenGpu:
        uuid = None
        try:
            handle = self._session.ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            uuid = self._session.ask(pynvml.nvmlDeviceGetUUID, handle)
            return self._state(Device(self._session, uuid, handle), driver, cuda)
        except DriverDownError:
            raise
        except HardwareError as error:
            return BrokenGpu(index=index, uuid=uuid, problem=str(error), lost=isinstance(error, GpuLostError))

    def _state(self, gpu: Device, driver: str, cuda: tuple[int, int]) -> GpuState:
        notes = Notes()
        board = boards.read(gpu, driver=driver, cuda=cuda, sysfs_root=self._sysfs, notes=notes)
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


def _ailments(gpu: Device, notes: Notes) -> Iterator[Ailment]:
    nothing: tuple[Ailment, ...] = ()
    yield from notes.attempt("broken memory", lambda: ailments.of_memory(gpu), otherwise=nothing)
    yield from notes.attempt("recovery", lambda: ailments.wanted_recovery(gpu), otherwise=nothing)
