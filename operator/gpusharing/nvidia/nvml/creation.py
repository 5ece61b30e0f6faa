"""Making a MIG instance, whole or not at all: a GPU instance, and the one compute instance that fills it."""

import ctypes
from typing import Any, Final

import pynvml

from gpusharing.core.devices.gpu import MigProfile
from gpusharing.nvidia.errors import (
    ConfusedError,
    DriverHungError,
    HardwareError,
    MigDisabledError,
    NoRoomError,
    NothingHappenedError,
    NotOursError,
    NotSupportedError,
)
from gpusharing.nvidia.facts import Change, GpuInstance
from gpusharing.nvidia.nvml import destruction, instances, mig_mode
from gpusharing.nvidia.nvml.place import Place

_COMPUTE_KINDS: Final = range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT)


def create(place: Place) -> Change[GpuInstance | None]:
    profile = _require_profile(place)
    occupants = place.occupants(profile.size)
    found = place.among(occupants)
    if found is None:
        if occupants:
            taken = ", ".join(map(str, occupants))
            raise NoRoomError(f"{profile.name} at {place.start} would overlap {taken}", gpu=place.gpu.uuid)
        return Change(None, _create(place, profile))
    if found.is_remnant:
        return Change(found, _complete(place, profile, found))
    if [part.span.size for part in found.compute_instances] != [profile.slices]:
        raise NotOursError(f"{found} contains several compute instances that are not ours", gpu=place.gpu.uuid)
    return Change(found, found)


def _create(place: Place, profile: MigProfile) -> GpuInstance:
    try:
        _order_gpu_instance(place, profile)
    except (ConfusedError, DriverHungError, NothingHappenedError) as error:
        # Nobody knows whether it has made it. Else it said no, and whatever should be there now is somebody else's.
        _undo(place, error, surely_ours=False)
        raise
    try:
        made = place.confirm(f"made {profile.name} at {place.start}", place.here)
        return _fill(place, profile, made)
    except HardwareError as error:
        _undo(place, error, surely_ours=True)
        raise


def _complete(place: Place, profile: MigProfile, remnant: GpuInstance) -> GpuInstance:
    try:
        return _fill(place, profile, remnant)
    except HardwareError as error:
        raise place.leftover(error.problem, remnant) from error


def _order_gpu_instance(place: Place, profile: MigProfile) -> None:
    placement = pynvml.c_nvmlGpuInstancePlacement_t()
    placement.start, placement.size = place.start, profile.size
    # By reference: the driver would take the bytes of anything else for an address.
    where = ctypes.byref(placement)
    place.gpu.change(pynvml.nvmlDeviceCreateGpuInstanceWithPlacement, place.gpu.handle, profile.id, where)


def _fill(place: Place, profile: MigProfile, instance: GpuInstance) -> GpuInstance:
    handle = instances.handle(place.gpu, instance)
    kind = _compute_profile(place, handle, profile)
    place.gpu.change(pynvml.nvmlGpuInstanceCreateComputeInstance, handle, kind)
    return place.confirm(f"filled {instance}", lambda: _filled(place.again(instance)))


def _filled(instance: GpuInstance | None) -> GpuInstance | None:
    return instance if instance and instance.uuid else None


def _compute_profile(place: Place, instance: Any, profile: MigProfile) -> int:
    """The number of the compute instance that has all slices of the GPU instance."""
    for kind in _COMPUTE_KINDS:
        try:
            info = place.gpu.ask(
                pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo,
                instance,
                kind,
                pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED,
            )
        except NotSupportedError:
            continue
        if info.sliceCount == profile.slices:
            return int(info.id)
    raise NotSupportedError(f"the driver has no compute instance that fills {profile.name}", gpu=place.gpu.uuid)


def _undo(place: Place, error: HardwareError, *, surely_ours: bool) -> None:
    """The place was free when we began; what lacks its other half now is hardly anybody else's."""
    here: GpuInstance | None = None
    try:
        here = place.here()
        if here and (surely_ours or here.is_remnant):
            destruction.destroy_instance(place, here)
    except HardwareError as why:
        raise place.leftover(f"{error.problem}; undoing it failed, too: {why.problem}", here) from why


def _require_profile(place: Place) -> MigProfile:
    uuid = place.gpu.uuid
    if not place.may_be_cut:
        # Which GPUs that cannot be cut at all refuse to tell.
        mig_mode.read(place.gpu)
        raise MigDisabledError("no instance can be made while MIG mode is off", gpu=uuid)
    if place.profile is None:
        known = ", ".join(f"{profile.name} ({profile.id})" for profile in place.profiles.values()) or "none"
        raise NotSupportedError(f"no MIG profile has the number {place.profile_id}; known are {known}", gpu=uuid)
    if place.start not in place.profile.starts:
        starts = ", ".join(map(str, place.profile.starts))
        raise NotSupportedError(f"{place.profile.name} cannot begin at {place.start}, but at {starts}", gpu=uuid)
    return place.profile
