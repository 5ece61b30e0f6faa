"""The MIG instances that a GPU is cut into: all of them, also halves that no list of MIG devices shows."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pynvml

from gpusharing.core.devices.gpu import MigProfile
from gpusharing.nvidia.facts import ComputeInstance, GpuInstance, MigPlace, Span
from gpusharing.nvidia.nvml.session import Device

# As many as NVIDIA numbers capabilities for. Asked for one by one, because that finds those of every profile, also of
# one that the driver does not list.
_GPU_INSTANCES: Final = range(15)
_COMPUTE_INSTANCES: Final = range(8)


def read(gpu: Device, profiles: Mapping[int, MigProfile], *, within: Span | None = None) -> Iterator[GpuInstance]:
    """Only while MIG mode is on; else the driver refuses. With `within`, those that take some of these slices."""
    for handle in handles(gpu):
        info = _info(gpu, handle)
        if within is None or _span(info.placement).overlaps(within):
            yield _gpu_instance(gpu, handle, info, profiles)


def at(
    gpu: Device, profiles: Mapping[int, MigProfile], place: MigPlace, numbers: Iterable[int] = _GPU_INSTANCES
) -> GpuInstance | None:
    """The one at this place, if it has one of these numbers."""
    for handle in handles(gpu, numbers):
        info = _info(gpu, handle)
        if MigPlace(info.profileId, info.placement.start) == place:
            return _gpu_instance(gpu, handle, info, profiles)
    return None


def places(gpu: Device) -> dict[int, MigPlace]:
    """By the numbers of GPU instances."""
    infos = [_info(gpu, handle) for handle in handles(gpu)]
    return {info.id: MigPlace(info.profileId, info.placement.start) for info in infos}


def handle(gpu: Device, instance: GpuInstance) -> Any:
    return gpu.ask(pynvml.nvmlDeviceGetGpuInstanceById, gpu.handle, instance.id)


def handles(gpu: Device, numbers: Iterable[int] = _GPU_INSTANCES) -> Iterator[Any]:
    for number in numbers:
        if (handle := gpu.find(pynvml.nvmlDeviceGetGpuInstanceById, gpu.handle, number)) is not None:
            yield handle


def _info(gpu: Device, handle: Any) -> Any:
    return gpu.ask(pynvml.nvmlGpuInstanceGetInfo, handle)


def _gpu_instance(gpu: Device, handle: Any, info: Any, profiles: Mapping[int, MigProfile]) -> GpuInstance:
    profile = profiles.get(info.profileId)
    return GpuInstance(
        id=info.id,
        profile_id=info.profileId,
        profile=profile.name if profile else f"profile {info.profileId}",
        span=_span(info.placement),
        compute_instances=tuple(_compute_instances(gpu, handle, profile)),
    )


def _compute_instances(gpu: Device, instance: Any, profile: MigProfile | None) -> Iterator[ComputeInstance]:
    free = profile.slices if profile else len(_COMPUTE_INSTANCES)
    for number in _COMPUTE_INSTANCES:
        if free <= 0:
            return
        handle = gpu.find(pynvml.nvmlGpuInstanceGetComputeInstanceById, instance, number)
        if handle is None:
            continue
        info = gpu.ask(pynvml.nvmlComputeInstanceGetInfo, handle)
        span = _span(info.placement)
        free -= span.size
        yield ComputeInstance(
            id=info.id,
            profile_id=info.profileId,
            span=span,
            # What the description calls the device of the instance is a handle of the MIG device.
            uuid=gpu.ask(pynvml.nvmlDeviceGetUUID, info.device),
        )


def _span(placement: Any) -> Span:
    return Span(placement.start, placement.size)
