"""What a node would publish if nobody used its GPUs.

A GPU in use publishes only what can still be allocated on it. To say that a GPU is in use in another mode, one has to
know what it offers otherwise: its NodeSharing says so.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.dra import ResourceSlice
from gpusharing.api.meta import WholeMeta
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.core.devices import counters, reported_models
from gpusharing.core.devices.gpu import Gpu
from gpusharing.core.devices.offered import AS_FOUND, OfferedGpu
from gpusharing.core.publishing.devices import devices, full_menu

_OF_MIG: Final = frozenset({"uuid", "profile", "parentUUID"})


def slices(sharing: NodeSharing, driver: str) -> list[ResourceSlice]:
    """In place of all slices of our driver on the node."""
    node = sharing.metadata.name
    decided = {gpu.uuid: gpu for gpu in sharing.spec.gpus}
    of_pool: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    sets: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for status in sharing.status.gpus:
        offered = _offered(status, decided.get(status.uuid), sharing)
        pool = status.pool or node
        of_pool[pool] += _devices(offered, status, decided.get(status.uuid))
        sets[pool].append(counters.counter_set(offered.gpu))
    return [
        ResourceSlice(
            metadata=WholeMeta(name=f"{pool}-{number}"),
            spec={
                "driver": driver,
                "nodeName": node,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": 2},
                **content,
            },
        )
        for pool, published in of_pool.items()
        for number, content in enumerate(({"sharedCounters": sets[pool]}, {"devices": published}))
    ]


def _offered(status: GpuStatus, decided: GpuSharing | None, sharing: NodeSharing) -> OfferedGpu:
    model = reported_models.reported(status, sharing.status.models)
    gpu = Gpu(
        uuid=status.uuid,
        slot=status.slot,
        minor=status.minor,
        product_name=status.model,
        memory_mib=model.memory_mib,
        reserved_mib=model.reserved_mib,
        mig=model.mig,
        # Its attributes are taken from the status.
        brand="",
        architecture="",
        compute_capability=(0, 0),
        driver_version="",
        cuda_driver_version=(0, 0),
        pci_bus_id="",
    )
    return OfferedGpu(
        gpu=gpu,
        offers=(decided.offers if decided else None) or AS_FOUND,
        policy=decided.policy if decided else None,
        configured=True,
        restricted=bool(decided and decided.restricted),
        allow=decided.allow if decided else None,
        mig_enabled=bool(status.mig_mode and status.mig_mode.enabled),
        memory_wall=status.memory_wall,
    )


def _devices(offered: OfferedGpu, status: GpuStatus, decided: GpuSharing | None) -> Iterator[dict[str, Any]]:
    # A device may have been allocated under another of its names.
    allocated = {names.at_revision(one.device, 0): one.device for one in (decided.allocated if decided else ())}
    board = {name: value for name, value in status.attributes.items() if name != "type"}
    entries = [entry for entry in full_menu(offered) if names.read_device(entry.device)]
    for device in devices(offered, entries):
        own = {name: value for name, value in device["attributes"].items() if name not in _BOARD}
        is_mig = names.sharing_of_device(device["name"]) is names.Sharing.MIG
        common = {name: value for name, value in board.items() if not (is_mig and name in _OF_MIG)}
        yield device | {"name": allocated.get(device["name"], device["name"]), "attributes": common | own}


_BOARD: Final = frozenset(
    {
        "brand",
        "architecture",
        "cudaComputeCapability",
        "driverVersion",
        "cudaDriverVersion",
        "resource.kubernetes.io/pciBusID",
    }
)
"""Of which a NodeSharing has the values in the GPU's attributes."""
