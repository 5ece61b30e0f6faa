"""Whether a GPU can be cut, and making it so."""

import pynvml

from gpusharing.agent.hardware.errors import (
    DisobeyedError,
    InUseError,
    MigModePendingError,
    NotSupportedError,
    ResetRequiredError,
)
from gpusharing.agent.hardware.facts import Change, MigMode
from gpusharing.agent.hardware.nvml import instances, processes
from gpusharing.agent.hardware.nvml.session import Device, typed


def read(gpu: Device) -> MigMode:
    current, pending = gpu.ask(pynvml.nvmlDeviceGetMigMode, gpu.handle)
    return MigMode(current=bool(current), pending=bool(pending))


def is_on(gpu: Device) -> bool:
    try:
        return read(gpu).current
    except NotSupportedError:
        return False


def put(gpu: Device, *, enabled: bool) -> Change[MigMode]:
    found = read(gpu)
    wanted = MigMode(current=enabled, pending=enabled)
    if found == wanted:
        return Change(found, found)
    if found.current != enabled:
        _require_unused(gpu, found)
    activation = gpu.change(pynvml.nvmlDeviceSetMigMode, gpu.handle, int(enabled))
    # Handles of before are void, and the GPU may have another minor number.
    gpu.session.renew()
    now = read(gpu.session.gpu(gpu.uuid))
    if activation != pynvml.NVML_SUCCESS or now != wanted:
        raise _failure(gpu, activation, now, wanted)
    return Change(found, now)


def _require_unused(gpu: Device, mode: MigMode) -> None:
    """The driver would note the wish, and fulfil it whenever somebody resets the GPU."""
    if pids := sorted({process.pid for process in processes.read(gpu)}):
        raise InUseError(
            f"MIG mode cannot change while processes use the GPU: {', '.join(map(str, pids))}", gpu=gpu.uuid
        )
    if mode.current and (cut := len(list(instances.handles(gpu)))):
        raise InUseError(
            f"MIG mode cannot change while the GPU is cut into {cut} instances",
            gpu=gpu.uuid,
            remedy="destroy them first",
        )


def _failure(gpu: Device, activation: int, now: MigMode, wanted: MigMode) -> Exception:
    """The call itself succeeds also where it has changed nothing."""
    if activation == pynvml.NVML_ERROR_RESET_REQUIRED:
        return ResetRequiredError("the driver has noted the new MIG mode and cannot reset the GPU for it", gpu=gpu.uuid)
    if activation not in {pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_IN_USE}:
        return typed(activation, pynvml.nvmlDeviceSetMigMode.__name__, gpu=gpu.uuid)
    if now.pending == wanted.pending:
        return MigModePendingError(f"MIG mode is {now}: a program has the GPU open", gpu=gpu.uuid)
    return DisobeyedError(f"the driver said that MIG mode was {wanted}, but it is {now}", gpu=gpu.uuid)
