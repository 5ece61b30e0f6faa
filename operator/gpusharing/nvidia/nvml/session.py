"""The driver's library, as it is spoken to in the driver's threads. Nothing here may be called from anywhere else."""

import contextlib
import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import pynvml

from gpusharing.core.devices.gpu import MigProfile
from gpusharing.nvidia import errors
from gpusharing.nvidia.driver_threads import DriverThreads
from gpusharing.nvidia.errors import HardwareError

T = TypeVar("T")

_ERRORS: Final[dict[int, type[HardwareError]]] = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: errors.NotSupportedError,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: errors.DriverTooOldError,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: errors.DriverTooOldError,
    pynvml.NVML_ERROR_NO_PERMISSION: errors.NotPermittedError,
    pynvml.NVML_ERROR_NOT_FOUND: errors.NotFoundError,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: errors.NotFoundError,
    pynvml.NVML_ERROR_GPU_IS_LOST: errors.GpuLostError,
    pynvml.NVML_ERROR_RESET_REQUIRED: errors.ResetRequiredError,
    pynvml.NVML_ERROR_IN_USE: errors.InUseError,
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: errors.NoRoomError,
    pynvml.NVML_ERROR_OPERATING_SYSTEM: errors.OperatingSystemError,
    pynvml.NVML_ERROR_TIMEOUT: errors.NothingHappenedError,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: errors.DriverGoneError,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: errors.DriverExchangedError,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: errors.DriverGoneError,
    pynvml.NVML_ERROR_UNINITIALIZED: errors.ConfusedError,
    pynvml.NVML_ERROR_INVALID_ARGUMENT: errors.InvalidArgumentError,
    pynvml.NVML_ERROR_UNKNOWN: errors.ConfusedError,
}


class Memory(NamedTuple):
    """Of a GPU, in mebibytes."""

    total: int
    reserved: int


class Watcher(Protocol):
    """Somebody who keeps something of the session from one piece of work to the next."""

    def before_renewal(self) -> None: ...

    def after_renewal(self) -> None: ...


class Session:
    """From an nvmlInit to its nvmlShutdown. With it goes everything that NVML gave out."""

    def __init__(self, library: Path, threads: DriverThreads) -> None:
        self._library = library
        self._threads = threads
        self.watchers: list[Watcher] = []
        self.mig_profiles: dict[str, tuple[MigProfile, ...]] = {}
        """By uuid: what a GPU can be cut into is long to ask for, and does not change."""
        self.memory: dict[str, Memory] = {}
        """By uuid, as it was first seen: what is published must not tremble with what the driver takes for itself."""

    def open(self) -> None:
        # pynvml loads the library by its bare name; a library with that name that is loaded already is the one it gets.
        try:
            ctypes.CDLL(str(self._library), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise errors.DriverGoneError(f"{self._library} cannot be loaded: {error}") from error
        # A node whose GPUs have all fallen off the bus still has an agent that says so.
        self.ask(pynvml.nvmlInitWithFlags, pynvml.NVML_INIT_FLAG_NO_GPUS)

    def close(self) -> None:
        with contextlib.suppress(errors.ConfusedError):
            self.ask(pynvml.nvmlShutdown)

    def renew(self) -> None:
        """A session does not always notice what others do to the GPUs; a new one does. What the caller has of the old
        one is void, and so is what other threads had that wait for the same."""
        self._threads.alone(self._renew)

    def _renew(self) -> None:
        for watcher in self.watchers:
            watcher.before_renewal()
        self.close()
        self.mig_profiles.clear()
        self.open()
        for watcher in self.watchers:
            watcher.after_renewal()

    def repeatable(self, question: Callable[[], T]) -> T:
        """Asks once more in a new session when the answer may be due to the old one."""
        try:
            return question()
        except errors.ConfusedError:
            self.renew()
            return question()

    def gpu(self, uuid: str) -> "Device":
        # Never kept: a handle does not survive a reset, and one that is looked up cannot be stale.
        return Device(self, uuid, self.ask(pynvml.nvmlDeviceGetHandleByUUID, uuid, gpu=uuid))

    def ask(self, function: Callable[..., T], *arguments: Any, gpu: str | None = None) -> T:
        return self._call(self._threads.ask, function, arguments, gpu)

    def find(self, function: Callable[..., T], *arguments: Any, gpu: str | None = None) -> T | None:
        """None: the driver knows none of this name. Whoever tries many names gets this answer quickly."""

        def ask(function: Callable[..., T], *arguments: Any) -> T | None:
            try:
                return self._threads.ask(function, *arguments)
            except pynvml.NVMLError_NotFound:
                return None

        return self._call(ask, function, arguments, gpu)

    def change(self, function: Callable[..., T], *arguments: Any, gpu: str | None = None) -> T:
        return self._call(self._threads.change, function, arguments, gpu)

    @staticmethod
    def _call(how: Callable[..., Any], function: Callable[..., T], arguments: tuple[Any, ...], gpu: str | None) -> T:
        try:
            answer: T = how(function, *arguments)
            return answer  # noqa: TRY300 (what follows is for the error only)
        except pynvml.NVMLError as error:
            code = error.value
        # Not while the other is handled: pynvml's errors cannot be compared, which breaks those who walk the chain.
        raise typed(code, function.__name__, gpu=gpu)


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, for the time of one piece of work."""

    session: Session
    uuid: str
    handle: Any

    def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        return self.session.ask(function, *arguments, gpu=self.uuid)

    def find(self, function: Callable[..., T], *arguments: Any) -> T | None:
        return self.session.find(function, *arguments, gpu=self.uuid)

    def change(self, function: Callable[..., T], *arguments: Any) -> T:
        return self.session.change(function, *arguments, gpu=self.uuid)


def typed(code: int, function: str, *, gpu: str | None = None) -> HardwareError:
    kind = _ERRORS.get(code, HardwareError)
    return kind(f"{function}: {pynvml.NVMLError(code)}", gpu=gpu)
