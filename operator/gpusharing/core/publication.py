"""What a node offers the scheduler: devices, counters and slices, as a pure function of inventory and offers.

Each GPU has a slice of its own and the counter sets have theirs, whether they are used or not, so that a GPU changes
what it offers by one atomic write, without a new generation of the pool.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.sharing import ExclusiveOffer, Offers, PolicyReference, TimeSlicingOffer
from gpusharing.core.inventory import Board, Gpu

AS_FOUND: Final = Offers(exclusive=ExclusiveOffer())

# Limits of resource.k8s.io/v1.
_COUNTER_SETS_PER_SLICE: Final = 8
_MAX_STRING: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedGpu:
    gpu: Gpu
    offers: Offers
    policy: PolicyReference | None
    configured: bool
    """False until the operator has spoken: then nothing may be scheduled here that a policy might have restricted."""


def device_names(gpu: OfferedGpu) -> tuple[str, ...]:
    return tuple(device["name"] for device in devices(gpu))


def in_force(current: OfferedGpu, wanted: OfferedGpu, *, in_use: bool) -> OfferedGpu:
    """A GPU in use keeps its devices: the allocator over-commits when an allocated one, or one beside it, vanishes."""
    if in_use and device_names(current) != device_names(wanted):
        return current
    return wanted


def slice_specs(gpus: Sequence[OfferedGpu], *, node: str, driver: str, generation: int) -> list[dict[str, Any]]:
    """The whole pool, in the order in which the scheduler shall fill it."""
    ordered = sorted(gpus, key=lambda gpu: gpu.gpu.slot)
    contents: list[dict[str, Any]] = [
        {"sharedCounters": [_counter_set(offered.gpu) for offered in chunk]}
        for chunk in _chunks(ordered, _COUNTER_SETS_PER_SLICE)
    ]
    contents += [{"devices": devices(offered)} for offered in ordered]
    pool = {"name": node, "generation": generation, "resourceSliceCount": len(contents)}
    return [{"driver": driver, "nodeName": node, "pool": pool, **content} for content in contents]


def devices(offered: OfferedGpu) -> list[dict[str, Any]]:
    gpu, offers = offered.gpu, offered.offers
    # One way only: nothing to exclude, and counters cost the scheduler dearly.
    counters = [_whole_gpu(gpu)] if offers.exclusive and offers.time_slicing else []
    extra: dict[str, Any] = {"consumesCounters": counters} if counters else {}
    if not offered.configured:
        extra["taints"] = [{"key": names.UNCONFIGURED_TAINT, "effect": "NoSchedule"}]
    result = []
    if offers.exclusive is not None:
        result.append(_exclusive(offered) | extra)
    if offers.time_slicing is not None:
        result.append(_time_sliced(offered, offers.time_slicing) | extra)
    return result


def _chunks(gpus: Sequence[OfferedGpu], size: int) -> list[Sequence[OfferedGpu]]:
    return [gpus[start : start + size] for start in range(0, len(gpus), size)]


def _exclusive(offered: OfferedGpu) -> dict[str, Any]:
    return {
        "name": names.whole_device(offered.gpu.slot),
        "attributes": _attributes(offered, "gpu", names.Sharing.EXCLUSIVE),
        "capacity": {"memory": {"value": _memory(offered.gpu)}},
    }


def _time_sliced(offered: OfferedGpu, offer: TimeSlicingOffer) -> dict[str, Any]:
    # Every capacity of a shared device has a policy: without one, a plain request would take all of it.
    shares = {"default": "1", "validRange": {"min": "1", "step": "1", "max": str(offer.max_clients)}}
    memory = {"default": "0", "validRange": {"min": "0"}}
    return {
        "name": names.time_sliced_device(offered.gpu.slot),
        "attributes": _attributes(offered, "shared", names.Sharing.TIME_SLICING),
        "allowMultipleAllocations": True,
        "capacity": {
            "shares": {"value": str(offer.max_clients), "requestPolicy": shares},
            "memory": {"value": _memory(offered.gpu), "requestPolicy": memory},
        },
    }


def _attributes(offered: OfferedGpu, type_: str, sharing: names.Sharing) -> dict[str, Any]:
    attributes = {
        "type": _string(type_),
        **board_attributes(offered.gpu),
        names.SHARING_ATTRIBUTE: _string(sharing),
    }
    if offered.policy is not None:
        attributes[names.POLICY_ATTRIBUTE] = _string(offered.policy.name)
    return attributes


def board_attributes(gpu: Board) -> dict[str, Any]:
    """What is the same on every device of a GPU, however it is offered."""
    attributes: dict[str, Any] = {
        "uuid": _string(gpu.uuid),
        "productName": _string(gpu.product_name),
        "brand": _string(gpu.brand),
        "architecture": _string(gpu.architecture),
        "cudaComputeCapability": {"version": "{}.{}.0".format(*gpu.compute_capability)},
        "driverVersion": {"version": semantic_version(gpu.driver_version)},
        "cudaDriverVersion": {"version": "{}.{}.0".format(*gpu.cuda_driver_version)},
        "resource.kubernetes.io/pciBusID": _string(gpu.pci_bus_id),
    }
    if gpu.pcie_root is not None:
        attributes["resource.kubernetes.io/pcieRoot"] = _string(gpu.pcie_root)
    if gpu.numa_node is not None:
        attributes["resource.kubernetes.io/numaNode"] = {"int": gpu.numa_node}
    return attributes


def _string(value: str) -> dict[str, str]:
    return {"string": value.encode()[:_MAX_STRING].decode(errors="ignore")}


def semantic_version(version: str) -> str:
    """A driver's "580.173.02" as the API wants it: three numbers without leading zeros."""
    numbers = [str(int(number)) for number in re.findall(r"[0-9]+", version)[:3]]
    return ".".join(([*numbers, "0", "0", "0"])[:3])


def _memory(gpu: Gpu) -> str:
    return f"{gpu.memory_mib}Mi"


def _counter_set_name(gpu: Gpu) -> str:
    return f"gpu-{gpu.slot}-counter-set"


def _counter_set(gpu: Gpu) -> dict[str, Any]:
    return {"name": _counter_set_name(gpu), "counters": {"memory": {"value": _memory(gpu)}}}


def _whole_gpu(gpu: Gpu) -> dict[str, Any]:
    return {"counterSet": _counter_set_name(gpu), "counters": {"memory": {"value": _memory(gpu)}}}
