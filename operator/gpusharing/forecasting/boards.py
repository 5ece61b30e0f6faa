"""GPUs as an agent would find them on a node of these models: a server with two sockets, without PCIe switches."""

import uuid
from collections.abc import Sequence
from typing import Final

from gpusharing.api.sharing.gpu_status import MemoryWallSupport
from gpusharing.core.devices.gpu import Board, Engines, MigProfile, MigSupport
from gpusharing.sim import mig
from gpusharing.sim.drivers import Driver
from gpusharing.sim.errors import SimError
from gpusharing.sim.models import Architecture, Model
from gpusharing.sim.topology import PciSlot, pci_slots

_ARCHITECTURES: Final = {
    Architecture.TURING: "Turing",
    Architecture.AMPERE: "Ampere",
    Architecture.ADA: "Ada Lovelace",
    Architecture.HOPPER: "Hopper",
    Architecture.BLACKWELL: "Blackwell",
}
_ADDRESSING_SINCE: Final = 580
_WALLS_SINCE: Final = 615


def boards(models: Sequence[Model], driver: Driver, *, node: str) -> list[Board]:
    """The same each time for a node of this name. Raises SimError."""
    slots = pci_slots(len(models))
    return [_board(index, model, slots[index], driver, node) for index, model in enumerate(models)]


def memory_wall(driver: Driver) -> MemoryWallSupport:
    """The toolkit and the cgroups of the node are taken to be new enough."""
    if driver.branch >= _WALLS_SINCE:
        return MemoryWallSupport(supported=True)
    reason = f"driver {driver.version} has no memory limits: they came with R{_WALLS_SINCE}"
    return MemoryWallSupport(supported=False, reason=reason)


def _board(index: int, model: Model, slot: PciSlot, driver: Driver, node: str) -> Board:
    if model.driver > driver.branch:
        raise SimError(f"driver {driver.version} does not support {model.name}, which needs {model.driver} or newer")
    return Board(
        uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{node}/{index}')}",
        minor=index,
        product_name=model.product_name,
        brand="Nvidia",
        architecture=_ARCHITECTURES[model.architecture],
        memory_mib=model.memory_mib,
        reserved_mib=model.reserved_mib,
        compute_capability=model.compute_capability,
        driver_version=driver.version,
        cuda_driver_version=(driver.cuda_version // 1000, driver.cuda_version % 1000 // 10),
        pci_bus_id=slot.address,
        pcie_root=f"pci0000:{slot.root_bus:02x}",
        numa_node=slot.numa_node,
        addressing_mode="HMM" if driver.branch >= _ADDRESSING_SINCE else None,
        mig=_mig_support(model, driver),
    )


def _mig_support(model: Model, driver: Driver) -> MigSupport | None:
    if not model.mig_capable:
        return None
    known = [profile for profile in model.mig_profiles if profile.shape.kind < driver.gpu_profile_count]
    by_kind = sorted(known, key=lambda profile: profile.shape.kind)
    # Old drivers tell no profiles while MIG mode is off.
    profiles = tuple(map(mig_profile, by_kind)) if driver.profiles_without_mig else ()
    return MigSupport(profiles=profiles, switch_resets_gpu=model.mig_mode_needs_reset)


def mig_profile(profile: mig.MigProfile) -> MigProfile:
    shape = profile.shape
    return MigProfile(
        id=shape.id,
        name=profile.name,
        slices=shape.slices,
        memory_mib=profile.memory_mib,
        engines=Engines(
            multiprocessors=shape.multiprocessors,
            copy_engines=shape.copy_engines,
            decoders=shape.decoders,
            encoders=shape.encoders,
            jpeg_engines=shape.jpegs,
            ofa_engines=shape.ofas,
        ),
        size=shape.memory_slices,
        starts=tuple(sorted(shape.starts)),
    )
