"""How much there is of a device, and how much of it a claim gets.

Every capacity of a shared device has a policy with a default: without one, a plain request would take all of it.
"""

from typing import Any, Final

from gpusharing.api.sharing import MpsOffer, TimeSlicingOffer
from gpusharing.core.amounts import in_mebibytes
from gpusharing.core.inventory import Engines, Gpu, MigProfile

Capacities = dict[str, Any]

# What a device whose offer nobody remembers says of itself while it closes: nobody new gets it anyway.
FORGOTTEN_CLIENTS: Final = 2


def whole(gpu: Gpu, *, beside_mig: bool) -> Capacities:
    """Beside MIG devices a GPU can be compared with its parts."""
    engines = _engines(gpu.mig.largest) if gpu.mig and beside_mig else {}
    return engines | {"memory": {"value": in_mebibytes(gpu.memory_mib)}}


def time_sliced(gpu: Gpu, offer: TimeSlicingOffer | None) -> Capacities:
    total = in_mebibytes(gpu.memory_mib)
    memory = offer.memory if offer else None
    return {
        "shares": _shares(offer.max_clients if offer else FORGOTTEN_CLIENTS),
        # Undivided, it is a number to ask for that takes nothing away.
        "memory": _divided(total, memory.default, memory.min) if memory else _divided(total, "0", "0"),
    }


def mps(gpu: Gpu, offer: MpsOffer | None) -> Capacities:
    total = in_mebibytes(gpu.memory_mib)
    if offer is None:
        return {
            "shares": _shares(FORGOTTEN_CLIENTS),
            "memory": _divided(total, total, total),
            "threads": _divided("100", "100", "100"),
        }
    memory, threads = offer.memory, offer.threads
    return {
        "shares": _shares(offer.max_clients),
        "memory": _divided(total, memory.default, memory.min, memory.max),
        "threads": _divided("100", str(threads.default), str(threads.min), step="1"),
    }


def mig_instance(profile: MigProfile) -> Capacities:
    return _engines(profile.engines) | {"memory": {"value": in_mebibytes(profile.memory_mib)}}


def memory_slices(profile: MigProfile, start: int) -> Capacities:
    """Those that an instance which is there already lies on."""
    return {f"memorySlice{number}": {"value": "1"} for number in range(start, start + profile.size)}


def _engines(engines: Engines) -> Capacities:
    amounts = {
        "multiprocessors": engines.multiprocessors,
        "copyEngines": engines.copy_engines,
        "decoders": engines.decoders,
        "encoders": engines.encoders,
        "jpegEngines": engines.jpeg_engines,
        "ofaEngines": engines.ofa_engines,
    }
    return {name: {"value": str(amount)} for name, amount in amounts.items()}


def _shares(clients: int) -> dict[str, Any]:
    return _divided(str(clients), "1", "1", step="1")


def _divided(
    total: str, default: str, least: str, most: str | None = None, *, step: str | None = None
) -> dict[str, Any]:
    limits = {"min": least} | ({"step": step} if step else {}) | {"max": most or total}
    return {"value": total, "requestPolicy": {"default": default, "validRange": limits}}
