"""The state of a simulated node as it lies in the shared file.

This is its only definition: `header` turns it into the C header. All settings that C code acts on are here, so that
the C library has no table of models or of driver versions and decides nothing.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Annotated, Any, TypeVar, get_type_hints

MAGIC = int.from_bytes(b"GPUSHSIM", "little")

# What NVML says for "no MIG instance", and what we say for "every GPU" and "without end".
NONE = 0xFFFFFFFF

S = TypeVar("S", bound=ctypes.Structure)

U32 = Annotated[int, ctypes.c_uint32]
I32 = Annotated[int, ctypes.c_int32]
U64 = Annotated[int, ctypes.c_uint64]
# As long as NVML's own buffers, so that nothing is ever cut.
Text = Annotated[bytes, ctypes.c_char * 96]
# The cgroups of Kubernetes have some 250 characters.
PathText = Annotated[bytes, ctypes.c_char * 1024]


class ComputeMode(IntEnum):
    """NVML's numbers; 1 was EXCLUSIVE_THREAD, which drivers no longer have."""

    DEFAULT = 0
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


class Timeslice(IntEnum):
    """The numbers of `nvidia-smi compute-policy --set-timeslice`."""

    DEFAULT = 0
    SHORT = 1
    MEDIUM = 2
    LONG = 3


class ProcessKind(IntEnum):
    """By which of NVML's three lists a process is reported."""

    COMPUTE = 0
    GRAPHICS = 1
    MPS_CLIENT = 2


class Media(IntEnum):
    """What a MIG profile takes of the engines for video and pictures, of which a GPU has one special set."""

    DEFAULT = 0
    ONE = 1
    ALL = 2
    NONE = 3


class FaultEffect(IntEnum):
    FAILS = 1
    HANGS = 2
    # Answers success and has changed nothing.
    LIES = 3


class MpsFault(IntEnum):
    """How the MPS control daemon of this node misbehaves."""

    NONE = 0
    DOES_NOT_START = 1
    # Accepts commands and never answers.
    HANGS = 2
    # The daemon runs, but its servers end at once.
    SERVER_DOES_NOT_START = 3
    # Limits are taken and told, and bind nobody.
    LIMITS_NOT_APPLIED = 4


def structure(cls: type[S]) -> type[S]:
    """Give a ctypes structure the fields that its annotations name."""
    # ctypes takes `_fields_` late only when assigned to the finished class.
    cls._fields_ = fields(cls)
    return cls


def fields(cls: type[ctypes.Structure]) -> list[tuple[str, Any]]:
    hints = get_type_hints(cls, include_extras=True)
    return [(name, hints[name].__metadata__[0]) for name in cls.__annotations__]


@structure
class CgroupState(ctypes.Structure):
    """Which cgroup, whatever its path in the mount namespace of who asks; all zero is none."""

    device: U64
    inode: U64
    # When the directory was made: file systems that are not cgroup2 give a removed directory's inode away again.
    born: U64


@structure
class ProcessState(ctypes.Structure):
    """A slot for a process that uses a GPU; free while `pid` is 0.

    A `watched` process holds a lock on a byte of the node's file `processes`, the one at GPU index * number of slots +
    slot. When it dies, in whatever way, the kernel drops the lock, and the next one who looks frees the slot.
    Others were put here by a test and stay until it takes them away.
    """

    # As the process itself knows it; the kernel, asked for the holder of the lock, tells it as the one who asks does.
    pid: U32
    kind: U32
    # NONE unless the process runs on a MIG device.
    gpu_instance: U32
    compute_instance: U32
    watched: U32
    # In percent: how much of the GPU it would keep busy by itself.
    sm_utilization: U32
    memory: U64
    # Its own first, then those above it.
    cgroups: Annotated[ctypes.Array[CgroupState], CgroupState * 6]


@structure
class ComputeProfileState(ctypes.Structure):
    """A kind of compute instance in a kind of GPU instance. Placements are in compute slices of that GPU instance."""

    exists: U32
    slices: U32
    max_instances: U32
    multiprocessors: U32
    start_count: U32
    starts: Annotated[ctypes.Array[ctypes.c_uint32], ctypes.c_uint32 * 8]
    name: Text


@structure
class GpuProfileState(ctypes.Structure):
    """A kind of GPU instance. Placements are in memory slices."""

    exists: U32
    id: U32
    slices: U32
    max_instances: U32
    multiprocessors: U32
    copy_engines: U32
    decoders: U32
    encoders: U32
    jpegs: U32
    ofas: U32
    media: U32
    capabilities: U32
    memory_mib: U64
    size: U32
    start_count: U32
    starts: Annotated[ctypes.Array[ctypes.c_uint32], ctypes.c_uint32 * 8]
    # The same in the order in which the driver tries them when it may choose.
    preference: Annotated[ctypes.Array[ctypes.c_uint32], ctypes.c_uint32 * 8]
    name: Text
    # By NVML_COMPUTE_INSTANCE_PROFILE_*, which is also the id.
    compute_profiles: Annotated[ctypes.Array[ComputeProfileState], ComputeProfileState * 9]


@structure
class ComputeInstanceState(ctypes.Structure):
    exists: U32
    # Of `compute_profiles`.
    profile: U32
    start: U32
    # Of the MIG device, among those of its GPU; kept until the end, so the numbers in use may have gaps.
    index: U32
    # Different for each instance that ever was, so that the handle of a former one is recognised.
    generation: U32
    compute_mode: U32
    uuid: Text


@structure
class GpuInstanceState(ctypes.Structure):
    exists: U32
    # Of `gpu_profiles`.
    profile: U32
    start: U32
    generation: U32
    compute_instances: Annotated[ctypes.Array[ComputeInstanceState], ComputeInstanceState * 8]


@structure
class GpuState(ctypes.Structure):
    # What it is.
    uuid: Text
    name: Text
    serial: Text
    brand: U32
    architecture: U32
    compute_capability_major: I32
    compute_capability_minor: I32
    pci_domain: U32
    pci_bus: U32
    pci_device: U32
    pci_device_id: U32
    pci_subsystem_id: U32
    memory: U64
    memory_reserved: U64
    multiprocessors: U32
    virtualization_mode: U32
    addressing_mode: U32
    # Of the CPU socket that it is nearest to.
    numa_node: I32
    supported_events: U64
    fabric_supported: U32
    row_remapping_supported: U32
    timeslice_supported: U32
    memory_limits_supported: U32
    mig_capable: U32
    # Ampere: a change of the MIG mode needs a reset, and the mode outlives a reboot.
    mig_mode_needs_reset: U32
    mig_mode_persists: U32
    max_mig_devices: U32
    memory_slices: U32
    mig_uuid_seed: U64
    # By NVML_GPU_INSTANCE_PROFILE_*.
    gpu_profiles: Annotated[ctypes.Array[GpuProfileState], GpuProfileState * 18]

    # What it is set to.
    minor: U32
    persistence_mode: U32
    ecc_mode: U32
    compute_mode: U32
    timeslice: U32
    mig_mode_current: U32
    mig_mode_pending: U32
    # Raised by everything after which handles of before are no longer good.
    generation: U32
    # How many MIG instances were ever made.
    instances_made: U32
    # By their ids.
    gpu_instances: Annotated[ctypes.Array[GpuInstanceState], GpuInstanceState * 15]
    # More than CUDA's limit of MPS clients, so that a test can go beyond it.
    processes: Annotated[ctypes.Array[ProcessState], ProcessState * 128]

    # How it is.
    lost: U32
    remapped_rows_correctable: U32
    remapped_rows_uncorrectable: U32
    row_remap_pending: U32
    row_remap_failed: U32
    # What would recover it, as the driver says; a number of nvmlDeviceGpuRecoveryAction_t, 0 is nothing.
    recovery_action: U32
    # A client that is no process of a GPU (nvidia-persistenced, DCGM, a display): keeps Ampere from changing the mode.
    held_open: U32
    # A virtual machine that may not reset its GPU.
    cannot_reset: U32
    # A change of the MIG mode is said to be active and stays pending.
    mig_mode_stuck: U32
    # The next change of the MIG mode exchanges the minor numbers of this GPU and the next one.
    swaps_minor: U32


@structure
class FaultState(ctypes.Structure):
    """What is wrong with calls; free while `id` is 0."""

    id: U32
    effect: U32
    # An index, or NONE: on any GPU and on none.
    gpu: U32
    # What it fails with.
    code: U32
    # So many matching calls are left alone first.
    skip: U32
    # So many matching calls are hit, or NONE: all.
    times: U32
    # After which a call that hangs goes on.
    milliseconds: U32
    # A C function, with or without its version suffix, or * for all.
    function: Text


@structure
class EventState(ctypes.Structure):
    """What NVML tells those that wait for events."""

    gpu: U32
    gpu_instance: U32
    compute_instance: U32
    type: U64
    data: U64


@structure
class MemoryLimitState(ctypes.Structure):
    """What the driver holds a cgroup to on a GPU; free while the cgroup is none."""

    gpu: U32
    soft: U64
    hard: U64
    cgroup: Annotated[CgroupState, CgroupState]
    path: PathText


@structure
class DriverState(ctypes.Structure):
    """A driver and what it can. Which functions it has is decided by which library the node got."""

    version: Text
    nvml_version: Text
    cuda_version: I32
    # 0 while the kernel module is not loaded.
    loaded: U32
    # Raised when another version is installed: a process that has loaded the library of before is refused.
    exchanged: U32
    gpu_profile_count: U32
    compute_profile_count: U32
    # Newest versions of structures that it knows.
    profile_info_version: U32
    fabric_info_version: U32
    # Before, asking for MIG profiles while MIG is off is refused.
    profiles_without_mig: U32
    # From R610 on the compute mode is set on MIG devices.
    compute_mode_of_mig_devices: U32
    mps_max_clients: U32


@structure
class NodeState(ctypes.Structure):
    magic: U64
    layout: U32
    gpu_count: U32
    # Raised by each reboot; a process of the node that sees another number has been ended by it.
    boot: U32
    boot_id: Text
    # Of quirks.Quirk, for as long as the node exists.
    quirks: U32
    driver: Annotated[DriverState, DriverState]
    mps_fault: U32
    # How many there ever were, and how many slots have ever been in use.
    faults_made: U32
    fault_slots: U32
    faults: Annotated[ctypes.Array[FaultState], FaultState * 64]
    # How many there ever were; the last ones are kept, in a ring. Those that wait sleep on this number.
    events_made: U32
    events: Annotated[ctypes.Array[EventState], EventState * 256]
    # How many were ever set: while it is 0, nobody has to look for any.
    memory_limits_made: U32
    memory_limits: Annotated[ctypes.Array[MemoryLimitState], MemoryLimitState * 256]
    # One bit for each GPU whose files below proc and dev are older than this state.
    files_stale: U32
    # A change that was begun and not finished: GPU index + 1, and how that GPU was before. Who takes the lock next
    # undoes it.
    changing: U32
    before: Annotated[GpuState, GpuState]
    # As many as NVIDIA numbers MIG capabilities for.
    gpus: Annotated[ctypes.Array[GpuState], GpuState * 32]
