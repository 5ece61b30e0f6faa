"""Destroying a MIG instance: its compute instances first, then itself."""

import pynvml

from gpusharing.nvidia.errors import HardwareError, InUseError, LeftoverError, NotOursError
from gpusharing.nvidia.facts import Change, GpuInstance
from gpusharing.nvidia.nvml import instances, processes
from gpusharing.nvidia.nvml.place import Place


def destroy(place: Place, *, mig_uuid: str | None) -> Change[GpuInstance | None]:
    found = place.here()
    if found is None:
        return Change(None, None)
    if mig_uuid is not None and not found.is_remnant and found.uuid != mig_uuid:
        raise NotOursError(f"{found} is no longer {mig_uuid}: somebody else has made it", gpu=place.gpu.uuid)
    try:
        destroy_instance(place, found)
    except HardwareError as error:
        if leftover := _leftover(place, found, error):
            raise leftover from error
        raise
    return Change(found, None)


def destroy_instance(place: Place, instance: GpuInstance) -> None:
    try:
        for part in instance.compute_instances:
            handle = instances.handle(place.gpu, instance)
            part_handle = place.gpu.ask(pynvml.nvmlGpuInstanceGetComputeInstanceById, handle, part.id)
            place.gpu.change(pynvml.nvmlComputeInstanceDestroy, part_handle)
        place.confirm(f"emptied {instance}", lambda: _is_empty(place.again(instance)))
        place.gpu.change(pynvml.nvmlGpuInstanceDestroy, instances.handle(place.gpu, instance))
        place.confirm(f"destroyed {instance}", lambda: place.again(instance) is None)
    except InUseError as error:
        users = [str(one.pid) for one in processes.read(place.gpu) if one.gpu_instance == instance.id]
        who = f"processes {', '.join(users)}" if users else "a program that has it open"
        raise InUseError(f"{instance} is used by {who}", gpu=place.gpu.uuid) from error


def _leftover(place: Place, found: GpuInstance, error: HardwareError) -> LeftoverError | None:
    try:
        left = place.here()
    except HardwareError as why:
        return place.leftover(f"{error.problem}; and what became of it cannot be seen: {why.problem}", found)
    return place.leftover(error.problem, left) if left and left.id == found.id and left != found else None


def _is_empty(instance: GpuInstance | None) -> bool:
    return instance is not None and instance.is_remnant
