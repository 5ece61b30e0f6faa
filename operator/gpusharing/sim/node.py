"""A simulated GPU node: a directory with the driver's library, its tool, its sysfs and CDI files, and the state."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import uuid as uuids
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gpusharing.sim import build, cdi, store, topology
from gpusharing.sim.errors import SimError
from gpusharing.sim.models import Model, parse_gpus
from gpusharing.sim.state import ComputeMode, GpuState, NodeState, ProcessKind, ProcessState, Timeslice

_MIB = 1024 * 1024

_DRIVER_VERSION = b"580.173.02"
_CUDA_DRIVER_VERSION = 13000

# NVML's numbers for what all GPUs of a simulated node have in common.
_BRAND_NVIDIA = 14
_PERSISTENCE_ENABLED = 1
_VIRTUALIZATION_NONE = 0
_ADDRESSING_HMM = 1


@dataclass(frozen=True)
class Process:
    pid: int
    memory: int
    kind: ProcessKind


@dataclass(frozen=True)
class Gpu:
    """A GPU as it was when it was read. Memory is in bytes."""

    index: int
    uuid: str
    minor: int
    name: str
    memory: int
    compute_mode: ComputeMode
    timeslice: Timeslice | None
    """None where the driver cannot set it."""
    processes: tuple[Process, ...]


@dataclass(frozen=True)
class SimNode:
    directory: Path

    @classmethod
    def open(cls, directory: Path) -> Self:
        """A node that was created before, perhaps by another process."""
        node = cls(directory.resolve())
        with store.locked(node.state):
            return node

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def library(self) -> Path:
        return self.directory / "lib" / build.LIBRARY

    @property
    def nvidia_smi(self) -> Path:
        return self.directory / "bin" / build.TOOL

    @property
    def sys(self) -> Path:
        return self.directory / "sys"

    @property
    def cdi(self) -> Path:
        return self.directory / "cdi"

    def environment(self, base: Mapping[str, str] = os.environ) -> dict[str, str]:
        """`base`, changed so that a program started with it finds this node's library and tool."""
        return {
            **base,
            "GPUSHARING_SIM_STATE": os.fspath(self.state),
            "LD_LIBRARY_PATH": _prepended(self.library.parent, base.get("LD_LIBRARY_PATH")),
            "PATH": _prepended(self.nvidia_smi.parent, base.get("PATH")),
        }

    def gpus(self) -> list[Gpu]:
        with store.locked(self.state) as state:
            return [_gpu(index, state.gpus[index]) for index in range(state.gpu_count)]

    def start_process(self, uuid: str, pid: int, memory: int, kind: ProcessKind = ProcessKind.COMPUTE) -> None:
        """A process takes GPU memory, and NVML lists it until it is stopped."""
        with self._locked_gpu(uuid) as gpu:
            if any(process.pid == pid for process in gpu.processes):
                raise SimError(f"process {pid} already runs on {uuid}")
            free = gpu.memory - gpu.memory_reserved - sum(process.memory for process in _running(gpu))
            if memory > free:
                raise SimError(f"process {pid} wants {memory} bytes, but {uuid} has only {free} free")
            slot = next((process for process in gpu.processes if not process.pid), None)
            if slot is None:
                raise SimError(f"{uuid} cannot have more than {len(gpu.processes)} processes")
            slot.kind = kind
            slot.memory = memory
            slot.pid = pid

    def stop_process(self, uuid: str, pid: int) -> None:
        with self._locked_gpu(uuid) as gpu:
            process = next((process for process in _running(gpu) if process.pid == pid), None)
            if process is None:
                raise SimError(f"no process {pid} runs on {uuid}")
            process.pid = 0

    def set_compute_mode(self, uuid: str, mode: ComputeMode) -> None:
        with self._locked_gpu(uuid) as gpu:
            gpu.compute_mode = mode

    def set_timeslice(self, uuid: str, timeslice: Timeslice | None) -> None:
        """None makes it a GPU whose time slice the driver cannot set."""
        with self._locked_gpu(uuid) as gpu:
            gpu.timeslice_supported = timeslice is not None
            gpu.timeslice = timeslice or Timeslice.DEFAULT

    @contextmanager
    def _locked_gpu(self, uuid: str) -> Iterator[GpuState]:
        with store.locked(self.state) as state:
            for gpu in state.gpus[: state.gpu_count]:
                if gpu.uuid == uuid.encode():
                    yield gpu
                    return
            raise SimError(f"{self.directory} has no GPU {uuid}")


def create(directory: Path, gpus: str, *, seed: str | None = None) -> SimNode:
    """Make a node with GPUs like `H100-80GB:2,L4:1` in an empty directory; the same seed gives the same UUIDs."""
    models = parse_gpus(gpus)
    slots = topology.pci_slots(len(models))
    state = _initial_state(models, slots, seed or secrets.token_hex())

    node = SimNode(directory.resolve())
    node.directory.mkdir(parents=True, exist_ok=True)
    if any(node.directory.iterdir()):
        raise SimError(f"{directory} is not empty")
    _install(node)
    topology.write_sysfs(node.sys, list(zip(slots, models, strict=True)))
    cdi.write_cdi_spec(node.cdi, {gpu.uuid.decode(): gpu.minor for gpu in state.gpus[: state.gpu_count]})
    _write_environment_file(node)
    # Last: from here on it is a node.
    store.write_new(node.state, state)
    return node


def _initial_state(models: Sequence[Model], slots: Sequence[topology.PciSlot], seed: str) -> NodeState:
    state = NodeState(
        driver_version=_DRIVER_VERSION,
        nvml_version=b"13." + _DRIVER_VERSION,
        cuda_driver_version=_CUDA_DRIVER_VERSION,
        gpu_count=len(models),
    )
    if len(models) > len(state.gpus):
        raise SimError(f"a simulated node has at most {len(state.gpus)} GPUs, not {len(models)}")
    for index, (model, slot) in enumerate(zip(models, slots, strict=True)):
        state.gpus[index] = _initial_gpu_state(index, model, slot, seed)
    return state


def _initial_gpu_state(index: int, model: Model, slot: topology.PciSlot, seed: str) -> GpuState:
    identity = uuids.uuid5(uuids.NAMESPACE_OID, f"{seed}/{index}")
    major, minor = model.compute_capability
    return GpuState(
        uuid=f"GPU-{identity}".encode(),
        name=model.product_name.encode(),
        serial=f"{identity.int % 10**13:013}".encode(),
        brand=_BRAND_NVIDIA,
        architecture=model.architecture,
        compute_capability_major=major,
        compute_capability_minor=minor,
        minor=index,
        pci_bus=slot.bus,
        pci_device_id=model.pci_device_id,
        pci_subsystem_id=model.pci_subsystem_id,
        memory=model.memory_mib * _MIB,
        memory_reserved=model.reserved_mib * _MIB,
        persistence_mode=_PERSISTENCE_ENABLED,
        virtualization_mode=_VIRTUALIZATION_NONE,
        addressing_mode=_ADDRESSING_HMM,
        compute_mode=ComputeMode.DEFAULT,
        timeslice_supported=True,
        timeslice=Timeslice.DEFAULT,
        mig_capable=model.mig_capable,
    )


def _install(node: SimNode) -> None:
    built = build.build()
    for file in (node.library, node.nvidia_smi):
        file.parent.mkdir()
        # Copies, because the library finds the state from where it lies itself.
        shutil.copy2(built / file.name, file)
    node.library.with_suffix("").symlink_to(node.library.name)


def _write_environment_file(node: SimNode) -> None:
    library, tool, state = (
        shlex.quote(os.fspath(path)) for path in (node.library.parent, node.nvidia_smi.parent, node.state)
    )
    (node.directory / "env").write_text(
        "# To be sourced: programs of this shell then see the simulated GPUs.\n"
        f"export GPUSHARING_SIM_STATE={state}\n"
        f'export LD_LIBRARY_PATH={library}"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"\n'
        f'export PATH={tool}"${{PATH:+:$PATH}}"\n'
    )


def _prepended(directory: Path, search_path: str | None) -> str:
    return os.pathsep.join(filter(None, (os.fspath(directory), search_path)))


def _running(gpu: GpuState) -> list[ProcessState]:
    return [process for process in gpu.processes if process.pid]


def _gpu(index: int, gpu: GpuState) -> Gpu:
    return Gpu(
        index=index,
        uuid=gpu.uuid.decode(),
        minor=gpu.minor,
        name=gpu.name.decode(),
        memory=gpu.memory,
        compute_mode=ComputeMode(gpu.compute_mode),
        timeslice=Timeslice(gpu.timeslice) if gpu.timeslice_supported else None,
        processes=tuple(
            Process(pid=process.pid, memory=process.memory, kind=ProcessKind(process.kind)) for process in _running(gpu)
        ),
    )
