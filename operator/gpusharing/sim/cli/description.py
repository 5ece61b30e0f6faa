"""A node in words."""

from __future__ import annotations

from collections.abc import Iterator

from gpusharing.sim.cli.fault_arguments import words
from gpusharing.sim.gpus import Gpu, GpuInstance, Process
from gpusharing.sim.memory_limits import MemoryLimit
from gpusharing.sim.node import SimNode


def describe(node: SimNode) -> str:
    return "".join(f"{line}\n" for line in _lines(node))


def _lines(node: SimNode) -> Iterator[str]:
    yield f"driver {node.driver_version}{'' if node.driver_is_loaded else ', not loaded'}, boot {node.boot_id}"
    if quirks := node.quirks:
        yield f"quirks: {', '.join(quirk.option for quirk in quirks)}"
    for gpu in node.gpus():
        yield from _gpu(gpu)
    for limit in node.memory_limits():
        yield _memory_limit(limit)
    for daemon in node.mps_daemons():
        yield f"MPS daemon {daemon.pid} with the pipe directory {daemon.pipe}"
    for fault in node.faults():
        yield f"fault: {words(fault)}"


def _gpu(gpu: Gpu) -> Iterator[str]:
    yield f"GPU {gpu.index} {gpu.uuid} {gpu.name} {_mib(gpu.memory)}"
    yield f"  minor {gpu.minor}, compute mode {gpu.compute_mode.name}, time slice {_timeslice(gpu)}"
    yield f"  MIG mode {_mig_mode(gpu)}"
    for instance in gpu.gpu_instances:
        yield from _gpu_instance(instance)
    for process in gpu.processes:
        yield f"  process {process.pid} {process.kind.name} {_mib(process.memory)}{_instance_of(process)}"


def _timeslice(gpu: Gpu) -> str:
    return "not supported" if gpu.timeslice is None else gpu.timeslice.name


def _mig_mode(gpu: Gpu) -> str:
    if gpu.mig_mode is None:
        return "not supported"
    current, pending = ("on" if each else "off" for each in (gpu.mig_mode.current, gpu.mig_mode.pending))
    return current if current == pending else f"{current}, {pending} after a reset"


def _gpu_instance(instance: GpuInstance) -> Iterator[str]:
    yield f"  GPU instance {instance.id}: {instance.profile} at {instance.start}"
    for compute in instance.compute_instances:
        yield f"    MIG device {compute.index}: {compute.profile}, compute instance {compute.id}, {compute.uuid}"


def _instance_of(process: Process) -> str:
    if process.gpu_instance is None:
        return ""
    return f" in GPU instance {process.gpu_instance}, compute instance {process.compute_instance}"


def _memory_limit(limit: MemoryLimit) -> str:
    hard = "none" if limit.hard is None else _mib(limit.hard)
    return f"memory limit on GPU {limit.gpu}: {limit.cgroup} hard {hard}, soft {_mib(limit.soft)}"


def _mib(amount: int) -> str:
    return f"{amount >> 20} MiB"
