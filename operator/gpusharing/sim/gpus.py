"""The GPUs of a node as they were when they were read."""

from __future__ import annotations

from dataclasses import dataclass

from gpusharing.sim import rules
from gpusharing.sim.errors import SimError
from gpusharing.sim.state import (
    NONE,
    ComputeMode,
    GpuInstanceState,
    GpuState,
    NodeState,
    ProcessKind,
    ProcessState,
    Timeslice,
)
from gpusharing.sim.store import Access

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Process:
    pid: int
    memory: int
    kind: ProcessKind
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True)
class MigMode:
    current: bool
    pending: bool


@dataclass(frozen=True)
class ComputeInstance:
    """A MIG device. `start` is within its GPU instance, in compute slices."""

    id: int
    profile: str
    start: int
    size: int
    uuid: str
    index: int


@dataclass(frozen=True)
class GpuInstance:
    """`start` and `size` are memory slices."""

    id: int
    profile: str
    start: int
    size: int
    compute_instances: tuple[ComputeInstance, ...]


@dataclass(frozen=True)
class Gpu:
    """Memory is in bytes."""

    index: int
    uuid: str
    minor: int
    name: str
    memory: int
    compute_mode: ComputeMode
    timeslice: Timeslice | None
    """None where the driver cannot set it."""
    processes: tuple[Process, ...]
    mig_mode: MigMode | None = None
    """None where there is no MIG."""
    gpu_instances: tuple[GpuInstance, ...] = ()
    lost: bool = False


@dataclass(frozen=True)
class Device:
    """Indexes in the state, of a GPU or of a MIG device on it."""

    gpu: int
    gpu_instance: int = NONE
    compute_instance: int = NONE


def find_gpu(state: NodeState, uuid: str) -> int:
    for index, gpu in enumerate(state.gpus[: state.gpu_count]):
        if gpu.uuid == uuid.encode():
            return index
    raise SimError(f"this node has no GPU {uuid}")


def find_device(state: NodeState, uuid: str) -> Device:
    for index, gpu in enumerate(state.gpus[: state.gpu_count]):
        for gpu_instance_id, gpu_instance in enumerate(gpu.gpu_instances):
            for compute_instance_id, compute_instance in enumerate(gpu_instance.compute_instances):
                if gpu_instance.exists and compute_instance.exists and compute_instance.uuid == uuid.encode():
                    return Device(index, gpu_instance_id, compute_instance_id)
    return Device(find_gpu(state, uuid))


def free_memory(gpu: GpuState, device: Device) -> int:
    if device.gpu_instance == NONE:
        return int(gpu.memory - gpu.memory_reserved - sum(process.memory for process in running(gpu)))
    whole = gpu.gpu_profiles[gpu.gpu_instances[device.gpu_instance].profile].memory_mib * _MIB
    taken = (process.memory for process in running(gpu) if process.gpu_instance == device.gpu_instance)
    return int(whole - sum(taken))


def running(gpu: GpuState) -> list[ProcessState]:
    return [process for process in gpu.processes if process.pid]


def read_gpu(access: Access, index: int) -> Gpu:
    gpu = access.state.gpus[index]
    instances = (
        _gpu_instance(gpu, number, instance) for number, instance in enumerate(gpu.gpu_instances) if instance.exists
    )
    return Gpu(
        index=index,
        uuid=gpu.uuid.decode(),
        minor=gpu.minor,
        name=gpu.name.decode(),
        memory=gpu.memory,
        compute_mode=ComputeMode(gpu.compute_mode),
        timeslice=Timeslice(gpu.timeslice) if gpu.timeslice_supported else None,
        processes=tuple(_process(access, index, slot) for slot, process in enumerate(gpu.processes) if process.pid),
        mig_mode=MigMode(bool(gpu.mig_mode_current), bool(gpu.mig_mode_pending)) if gpu.mig_capable else None,
        gpu_instances=tuple(instances),
        lost=bool(gpu.lost),
    )


def _gpu_instance(gpu: GpuState, number: int, instance: GpuInstanceState) -> GpuInstance:
    profile = gpu.gpu_profiles[instance.profile]
    return GpuInstance(
        id=number,
        profile=profile.name.decode(),
        start=instance.start,
        size=profile.size,
        compute_instances=tuple(
            ComputeInstance(
                id=compute_number,
                profile=profile.compute_profiles[compute.profile].name.decode(),
                start=compute.start,
                size=profile.compute_profiles[compute.profile].slices,
                uuid=compute.uuid.decode(),
                index=compute.index,
            )
            for compute_number, compute in enumerate(instance.compute_instances)
            if compute.exists
        ),
    )


def _process(access: Access, index: int, slot: int) -> Process:
    process = access.state.gpus[index].processes[slot]
    return Process(
        pid=rules.process_pid(access.state, index, slot, access.processes),
        memory=process.memory,
        kind=ProcessKind(process.kind),
        gpu_instance=_instance(process.gpu_instance),
        compute_instance=_instance(process.compute_instance),
    )


def _instance(number: int) -> int | None:
    return None if number == NONE else number
