"""Whether a GPU can be cut, making it so, and how it is cut now."""

import pynvml

from gpusharing.nvidia.errors import (
    InUseError,
    MigModePendingError,
    NotSupportedError,
    ResetRequiredError,
    SettingNotAppliedError,
)
from gpusharing.nvidia.facts import Change, MigMode, MigState
from gpusharing.nvidia.nvml import instances, mig_profiles, processes
from gpusharing.nvidia.nvml.session import Device, typed


def read(gpu: Device) -> MigMode:
    if gpu.ask(pynvml.nvmlDeviceGetVirtualizationMode, gpu.handle) == pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU:
        raise NotSupportedError(
            "only the host of the virtual machine can change the MIG mode of a virtual GPU", gpu=gpu.uuid
        )
    current, pending = gpu.ask(pynvml.nvmlDeviceGetMigMode, gpu.handle)
    return MigMode(current=bool(current), pending=bool(pending))


def read_state(gpu: Device) -> MigState | None:
    """None: it cannot be cut."""
    try:
        mode = read(gpu)
    except NotSupportedError:
        return None
    profiles = {profile.id: profile for profile in mig_profiles.read(gpu)}
    return MigState(
        mode=mode,
        switch_resets_gpu=switch_resets_gpu(gpu.ask(pynvml.nvmlDeviceGetArchitecture, gpu.handle)),
        instances=tuple(instances.read(gpu, profiles)) if mode.current else (),
    )


def switch_resets_gpu(architecture: int) -> bool:
    return bool(architecture <= pynvml.NVML_DEVICE_ARCH_AMPERE)


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
            f"MIG mode cannot change while the GPU has {cut} instances",
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
    return SettingNotAppliedError(f"the driver said that MIG mode was {wanted}, but it is {now}", gpu=gpu.uuid)
