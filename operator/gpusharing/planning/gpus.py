"""A GPU as its agent sees it, made of what the agent reports: what it would publish follows from that."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.gpu_models import GpuModel
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.core.devices import layout
from gpusharing.core.devices.gpu import Gpu, MigInstance
from gpusharing.core.devices.offered import AS_FOUND, OfferedGpu
from gpusharing.core.devices.reported_models import Reported, reported

_PLANNED: Final = "planned"
"""The uuid of an instance that does not exist yet."""


def gpu(status: GpuStatus, models: Sequence[GpuModel]) -> Gpu:
    attributes: Mapping[str, Any] = status.attributes
    known = _reported(status.model, status.memory, status.usable_memory, tuple(models))
    return Gpu(
        uuid=status.uuid,
        slot=status.slot,
        minor=status.minor,
        product_name=status.model,
        brand=_text(attributes, "brand"),
        architecture=_text(attributes, "architecture"),
        memory_mib=known.memory_mib,
        compute_capability=_pair(attributes, "cudaComputeCapability"),
        driver_version=_version(attributes, "driverVersion"),
        cuda_driver_version=_pair(attributes, "cudaDriverVersion"),
        pci_bus_id=_text(attributes, "resource.kubernetes.io/pciBusID"),
        pcie_root=_text(attributes, "resource.kubernetes.io/pcieRoot") or None,
        numa_node=attributes.get("resource.kubernetes.io/numaNode", {}).get("int"),
        reserved_mib=known.reserved_mib,
        addressing_mode=_text(attributes, "addressingMode") or None,
        mig=known.mig,
    )


def offered(
    status: GpuStatus,
    entry: GpuSharing,
    models: Sequence[GpuModel],
    *,
    held: Collection[MigPlace],
    unhealthy: Mapping[str, str],
) -> OfferedGpu:
    """As it is to be published. `held`: MIG instances that were made for claims."""
    itself = gpu(status, models)
    mode = status.mig_mode
    resets = itself.mig is not None and itself.mig.switch_resets_gpu
    only_mig = entry.offers is not None and entry.offers.mig is not None and entry.offers == _only_mig(entry)
    return OfferedGpu(
        gpu=itself,
        offers=entry.offers if entry.offers is not None else AS_FOUND,
        policy=entry.policy,
        configured=True,
        restricted=entry.restricted,
        allow=entry.allow,
        evicts=entry.drain is not None,
        mig_enabled=mode is not None and (only_mig if resets and entry.policy else mode.found),
        instances=_instances(status, entry, itself, held),
        memory_wall=status.memory_wall,
        unhealthy=unhealthy,
    )


def _only_mig(entry: GpuSharing) -> object:
    return (
        entry.offers.model_copy(update={"exclusive": None, "time_slicing": None, "mps": None}) if entry.offers else None
    )


def _instances(
    status: GpuStatus, entry: GpuSharing, itself: Gpu, held: Collection[MigPlace]
) -> tuple[MigInstance, ...]:
    """Those that are there whether a claim has them or not: of others, or of a static layout."""
    wanted = entry.offers.mig.layout if entry.offers and entry.offers.mig else None
    if entry.offers is not None:
        places = layout.places(wanted, itself, []) if wanted else ()
        return tuple(MigInstance(place=place, uuid=_PLANNED) for place in places or ())
    by_name = {profile.name: profile.id for profile in itself.mig.profiles} if itself.mig else {}
    found = [
        MigInstance(place=MigPlace(by_name[one.profile], one.start), uuid=one.uuid)
        for one in status.instances
        if one.profile in by_name
    ]
    return tuple(one for one in found if one.place not in held)


@lru_cache(256)
def _reported(model: str, memory: str, usable: str | None, models: tuple[GpuModel, ...]) -> Reported:
    """A fleet has few models, each with hundreds of places for MIG instances."""
    bare = GpuStatus(uuid="", slot=0, minor=0, model=model, memory=memory, usable_memory=usable, attributes={})
    return reported(bare, models)


def _text(attributes: Mapping[str, Any], name: str) -> str:
    text: str = attributes.get(name, {}).get("string", "")
    return text


def _version(attributes: Mapping[str, Any], name: str) -> str:
    version: str = attributes.get(name, {}).get("version", "0.0.0")
    return version


def _pair(attributes: Mapping[str, Any], name: str) -> tuple[int, int]:
    major, minor, *_ = _version(attributes, name).split(".")
    return int(major), int(minor)
