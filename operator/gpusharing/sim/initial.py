"""The state of a node that was just made."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Sequence

from gpusharing.sim.drivers import Driver
from gpusharing.sim.errors import SimError
from gpusharing.sim.mig import ComputeProfile, MigProfile
from gpusharing.sim.models import Model
from gpusharing.sim.quirks import Quirk
from gpusharing.sim.state import (
    ComputeMode,
    ComputeProfileState,
    DriverState,
    GpuProfileState,
    GpuState,
    NodeState,
    Timeslice,
)
from gpusharing.sim.topology import PciSlot

_MIB = 1024 * 1024

# NVML's numbers for what all GPUs of a simulated node have in common.
_BRAND_NVIDIA = 14
_ENABLED = 1
_VIRTUALIZATION_NONE = 0
_VIRTUALIZATION_VGPU = 2
_ADDRESSING_HMM = 1

_ECC_EVENTS = 0x1 | 0x2
_XID_EVENT = 0x8
_MIG_EVENT = 0x100
_RECOVERY_EVENTS = 0x4000 | 0x8000

_GRAPHICS_CAPABILITY = 0x2


def initial_state(
    models: Sequence[Model], slots: Sequence[PciSlot], driver: Driver, seed: str, quirks: Quirk
) -> NodeState:
    state = NodeState(gpu_count=len(models), boot_id=new_boot_id(), quirks=quirks, driver=driver_state(driver))
    if len(models) > len(state.gpus):
        raise SimError(f"a simulated node has at most {len(state.gpus)} GPUs, not {len(models)}")
    for index, (model, slot) in enumerate(zip(models, slots, strict=True)):
        if model.driver > driver.branch:
            raise SimError(f"the driver {driver.version} does not know the {model.name}: {model.driver} is the first")
        state.gpus[index] = _gpu_state(index, model, slot, driver, seed)
        if Quirk.VGPU_GUEST in quirks:
            state.gpus[index].virtualization_mode = _VIRTUALIZATION_VGPU
        state.files_stale |= 1 << index
    return state


def driver_state(driver: Driver) -> DriverState:
    return DriverState(
        version=driver.version.encode(),
        nvml_version=driver.nvml_version.encode(),
        cuda_version=driver.cuda_version,
        loaded=True,
        gpu_profile_count=driver.gpu_profile_count,
        compute_profile_count=driver.compute_profile_count,
        profile_info_version=driver.profile_info_version,
        fabric_info_version=driver.fabric_info_version,
        profiles_without_mig=driver.profiles_without_mig,
        compute_mode_of_mig_devices=driver.compute_mode_of_mig_devices,
        mps_max_clients=driver.mps_max_clients,
    )


def supported_events(model_has_mig: bool, driver: Driver) -> int:
    events = _ECC_EVENTS | _XID_EVENT
    if model_has_mig:
        events |= _MIG_EVENT
    if driver.recovery_events:
        events |= _RECOVERY_EVENTS
    return events


def new_boot_id() -> bytes:
    return str(uuids.uuid4()).encode()


def _gpu_state(index: int, model: Model, slot: PciSlot, driver: Driver, seed: str) -> GpuState:
    identity = uuids.uuid5(uuids.NAMESPACE_OID, f"{seed}/{index}")
    major, minor = model.compute_capability
    gpu = GpuState(
        uuid=f"GPU-{identity}".encode(),
        name=model.product_name.encode(),
        serial=f"{identity.int % 10**13:013}".encode(),
        brand=_BRAND_NVIDIA,
        architecture=model.architecture,
        compute_capability_major=major,
        compute_capability_minor=minor,
        pci_bus=slot.bus,
        pci_device_id=model.pci_device_id,
        pci_subsystem_id=model.pci_subsystem_id,
        memory=model.memory_mib * _MIB,
        memory_reserved=model.reserved_mib * _MIB,
        multiprocessors=model.multiprocessors,
        virtualization_mode=_VIRTUALIZATION_NONE,
        addressing_mode=_ADDRESSING_HMM,
        numa_node=slot.numa_node,
        supported_events=supported_events(model.mig_capable, driver),
        fabric_supported=model.fabric,
        row_remapping_supported=model.row_remapping,
        timeslice_supported=True,
        memory_limits_supported=True,
        mig_capable=model.mig_capable,
        mig_mode_needs_reset=model.mig_mode_needs_reset,
        mig_mode_persists=model.mig_mode_persists,
        max_mig_devices=model.max_mig_devices,
        memory_slices=max((profile.shape.memory_slices for profile in model.mig_profiles), default=0),
        mig_uuid_seed=identity.int & 0xFFFFFFFFFFFFFFFF,
        minor=index,
        persistence_mode=_ENABLED,
        ecc_mode=_ENABLED,
        compute_mode=ComputeMode.DEFAULT,
        timeslice=Timeslice.DEFAULT,
    )
    for profile in model.mig_profiles:
        gpu.gpu_profiles[profile.shape.kind] = _gpu_profile(profile)
    return gpu


def _gpu_profile(profile: MigProfile) -> GpuProfileState:
    shape = profile.shape
    state = GpuProfileState(
        exists=True,
        id=shape.id,
        slices=shape.slices,
        max_instances=shape.max_instances,
        multiprocessors=shape.multiprocessors,
        copy_engines=shape.copy_engines,
        decoders=shape.decoders,
        encoders=shape.encoders,
        jpegs=shape.jpegs,
        ofas=shape.ofas,
        media=profile.media,
        capabilities=_GRAPHICS_CAPABILITY if profile.graphics else 0,
        memory_mib=profile.memory_mib,
        size=shape.memory_slices,
        start_count=len(shape.starts),
        starts=tuple(sorted(shape.starts)),
        preference=shape.starts,
        name=profile.name.encode(),
    )
    for compute in profile.compute_profiles:
        state.compute_profiles[compute.kind] = _compute_profile(compute)
    return state


def _compute_profile(compute: ComputeProfile) -> ComputeProfileState:
    return ComputeProfileState(
        exists=True,
        slices=compute.slices,
        max_instances=len(compute.starts),
        multiprocessors=compute.multiprocessors,
        start_count=len(compute.starts),
        starts=compute.starts,
        name=compute.name.encode(),
    )
