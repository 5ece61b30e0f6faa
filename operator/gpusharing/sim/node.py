"""A simulated GPU node: a directory with the driver's library and tools, the kernel's files, CDI, and the state."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gpusharing.sim import (
    build,
    cdi,
    drivers,
    faults,
    initial,
    layout,
    memory_limits,
    mps,
    procfs,
    rules,
    store,
    topology,
)
from gpusharing.sim.drivers import Driver
from gpusharing.sim.errors import SimError
from gpusharing.sim.faults import Fault
from gpusharing.sim.gpus import Gpu, find_device, find_gpu, free_memory, read_gpu, running
from gpusharing.sim.memory_limits import MemoryLimit
from gpusharing.sim.models import parse_gpus
from gpusharing.sim.mps import MpsDaemon
from gpusharing.sim.quirks import NONE, Quirk
from gpusharing.sim.state import ComputeMode, GpuState, NodeState, ProcessKind, Timeslice
from gpusharing.sim.store import Access


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
    def driver_root(self) -> Path:
        """Where the driver is installed, as below the root of a file system."""
        return layout.driver_root(self.directory)

    @property
    def library(self) -> Path:
        return self.driver_root / "lib" / build.LIBRARY

    @property
    def programs(self) -> Path:
        return layout.programs(self.directory)

    @property
    def nvidia_smi(self) -> Path:
        return self.programs / build.TOOL

    @property
    def sys(self) -> Path:
        return self.directory / "sys"

    @property
    def proc(self) -> Path:
        return self.directory / "proc"

    @property
    def dev(self) -> Path:
        return self.directory / "dev"

    @property
    def cdi(self) -> Path:
        return self.directory / "cdi"

    def environment(self, base: Mapping[str, str] = os.environ) -> dict[str, str]:
        """`base`, changed so that a program started with it finds this node's library and tools."""
        return {
            **base,
            "GPUSHARING_SIM_STATE": os.fspath(self.state),
            "LD_LIBRARY_PATH": _prepended(self.library.parent, base.get("LD_LIBRARY_PATH")),
            "PATH": _prepended(self.nvidia_smi.parent, base.get("PATH")),
        }

    def gpus(self) -> list[Gpu]:
        with store.opened(self.state) as access:
            return _read_gpus(access)

    @property
    def boot_id(self) -> str:
        with store.locked(self.state) as state:
            return str(state.boot_id.decode())

    @property
    def driver_version(self) -> str:
        with store.locked(self.state) as state:
            return str(state.driver.version.decode())

    @property
    def driver_is_loaded(self) -> bool:
        with store.locked(self.state) as state:
            return bool(state.driver.loaded)

    @property
    def quirks(self) -> Quirk:
        with store.locked(self.state) as state:
            return Quirk(state.quirks)

    def start_process(
        self, uuid: str, pid: int, memory: int, kind: ProcessKind = ProcessKind.COMPUTE, *, utilization: int = 0
    ) -> None:
        """A process takes memory of a GPU or MIG device, and NVML lists it until it is stopped. None is started.
        `utilization`: percent of the GPU that its work keeps busy."""
        with store.locked(self.state) as state:
            device = find_device(state, uuid)
            gpu = state.gpus[device.gpu]
            if any(process.pid == pid for process in gpu.processes):
                raise SimError(f"process {pid} already runs on {uuid}")
            free = free_memory(gpu, device)
            if memory > free:
                raise SimError(f"process {pid} wants {memory} bytes, but {uuid} has only {free} free")
            slot = next((process for process in gpu.processes if not process.pid), None)
            if slot is None:
                raise SimError(f"{uuid} cannot have more than {len(gpu.processes)} processes")
            slot.kind = kind
            slot.memory = memory
            slot.sm_utilization = utilization
            slot.gpu_instance = device.gpu_instance
            slot.compute_instance = device.compute_instance
            slot.watched = False
            # Last, because now the slot is taken.
            slot.pid = pid

    def stop_process(self, uuid: str, pid: int) -> None:
        with store.locked(self.state) as state:
            gpu = state.gpus[find_device(state, uuid).gpu]
            process = next((process for process in running(gpu) if process.pid == pid), None)
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

    def set_memory_limits_supported(self, uuid: str, supported: bool) -> None:
        """Which GPUs the driver can hold cgroups to a limit on is not published."""
        with self._locked_gpu(uuid) as gpu:
            gpu.memory_limits_supported = supported

    def inject(self, fault: Fault) -> None:
        """From now on this is wrong. See `faults` for what there is."""
        with store.opened(self.state) as access:
            fault.begin(access)

    def clear(self, fault: Fault | None = None) -> None:
        """This, or everything, is well again. What has happened, like an XID or the loss of instances, stays so."""
        with store.opened(self.state) as access:
            if fault:
                fault.end(access)
            else:
                faults.end_all(access)

    def faults(self) -> list[Fault]:
        """What was injected and is still wrong."""
        with store.opened(self.state) as access:
            return faults.present(access)

    def memory_limits(self) -> list[MemoryLimit]:
        with store.locked(self.state) as state:
            return memory_limits.read(state)

    def mps_daemons(self) -> list[MpsDaemon]:
        return mps.running_daemons(self.programs)

    def reset_gpu(self, uuid: str) -> None:
        """As `nvidia-smi --gpu-reset`: MIG instances are gone, and a pending MIG mode is active."""
        with store.locked(self.state) as state:
            if code := rules.reset_gpu(state, find_gpu(state, uuid)):
                raise SimError(f"{uuid} cannot be reset: NVML error {code}")

    def unload_driver(self) -> None:
        """As `rmmod nvidia`, except that nobody can keep it from happening; NVML answers DRIVER_NOT_LOADED."""
        with store.locked(self.state) as state:
            state.driver.loaded = False
            procfs.unload_module(self.directory)

    def load_driver(self, version: str | None = None) -> None:
        """The same again, or another version: then processes that have loaded NVML before must start again."""
        with store.opened(self.state) as access:
            driver = drivers.find_driver(version or access.state.driver.version.decode())
            if driver.version.encode() != access.state.driver.version:
                self._exchange_driver(access.state, driver)
            self._start_driver(access, driver)
            rules.reload_driver(access.state)
            rules.write_files(access.state, access.directory)
            _write_cdi(self.cdi, access.state, _read_gpus(access))

    def reload_driver(self, version: str | None = None) -> None:
        """MIG instances, time slices, compute modes and processes are gone; from Hopper on the MIG mode too."""
        self.unload_driver()
        self.load_driver(version)

    def reboot(self) -> None:
        """As a reload of the driver, with another boot id, and GPUs that were lost are back."""
        self.unload_driver()
        with store.locked(self.state) as state:
            state.boot += 1
            state.boot_id = initial.new_boot_id()
            procfs.write_kernel_files(self.proc, state.boot_id.decode())
            for gpu in state.gpus[: state.gpu_count]:
                gpu.lost = False
        self.load_driver()

    def _exchange_driver(self, state: NodeState, driver: Driver) -> None:
        exchanged = state.driver.exchanged + 1
        state.driver = initial.driver_state(driver)
        state.driver.exchanged = exchanged
        for gpu in state.gpus[: state.gpu_count]:
            gpu.supported_events = initial.supported_events(bool(gpu.mig_capable), driver)
        _install_library(self, driver)

    def _start_driver(self, access: Access, driver: Driver) -> None:
        procfs.load_module(self.directory, driver, Quirk(access.state.quirks))
        access.state.driver.loaded = True

    @contextmanager
    def _locked_gpu(self, uuid: str) -> Iterator[GpuState]:
        with store.locked(self.state) as state:
            yield state.gpus[find_gpu(state, uuid)]


def create(
    directory: Path, gpus: str, *, seed: str | None = None, driver: str = drivers.DEFAULT, quirks: Quirk = NONE
) -> SimNode:
    """Make a node with GPUs like `H100-80GB:2,L4:1` in an empty directory; the same seed gives the same UUIDs."""
    models = parse_gpus(gpus)
    slots = topology.pci_slots(len(models))
    installed = drivers.find_driver(driver)
    state = initial.initial_state(models, slots, installed, seed or secrets.token_hex(), quirks)

    node = SimNode(directory.resolve())
    node.directory.mkdir(parents=True, exist_ok=True)
    if any(node.directory.iterdir()):
        raise SimError(f"{directory} is not empty")
    layout.make_driver_root(node.directory, quirks)
    _install_library(node, installed)
    _install_programs(node)
    topology.write_sysfs(node.sys, list(zip(slots, models, strict=True)))
    procfs.write_kernel_files(node.proc, state.boot_id.decode())
    procfs.load_module(node.directory, installed, quirks)
    _make_places(node, quirks)
    _write_environment_file(node)
    # From here on it is a node.
    store.write_new(node.state, state)
    if Quirk.OPERATOR_ROOT in quirks:
        _lead_to_state(node)
    _write_cdi(node.cdi, state, node.gpus())
    return node


def _lead_to_state(node: SimNode) -> None:
    """Programs that see no more than the driver's root and the node's devices find it by these, as others find the
    kernel's module."""
    directory = node.dev / ".sim"
    directory.mkdir()
    for file in (node.state, node.directory / "processes"):
        (directory / file.name).hardlink_to(file)


def _write_cdi(directory: Path, state: NodeState, gpus: list[Gpu]) -> None:
    if Quirk.NO_CDI in Quirk(state.quirks):
        cdi.write_management_spec(directory, gpus)
    else:
        cdi.write_cdi_spec(directory, gpus)


def _install_library(node: SimNode, driver: Driver) -> None:
    """Copies, because the library finds the state from where it lies itself."""
    directory = node.library.parent
    shutil.rmtree(directory)
    directory.mkdir()
    for name, built in {"libnvidia-ml.so": build.library_of(driver), build.CUDA: build.CUDA}.items():
        file = directory / f"{name}.{driver.version}"
        shutil.copy2(build.build() / built, file)
        (directory / f"{name}.1").symlink_to(file.name)
        (directory / name).symlink_to(f"{name}.1")


def _install_programs(node: SimNode) -> None:
    built = build.build()
    for name in build.PROGRAMS:
        shutil.copy2(built / name, node.programs / name)


def _make_places(node: SimNode, quirks: Quirk) -> None:
    """That every root of a system has."""
    for root in {node.directory, node.driver_root}:
        for place in ("mnt", "proc", "dev/shm"):
            (root / place).mkdir(parents=True, exist_ok=True)
    if Quirk.SELINUX in quirks:
        enforcing = node.sys / "fs/selinux/enforce"
        enforcing.parent.mkdir(parents=True)
        enforcing.write_text("1")
    if Quirk.HOST_LIBC in quirks:
        # An interpreter of another system ends at once that looks for its own here; the tool needs less of it.
        (node.library.parent / "libm.so.6").write_text("not the C library of who looks for it\n")


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


def _read_gpus(access: Access) -> list[Gpu]:
    return [read_gpu(access, index) for index in range(access.state.gpu_count)]
