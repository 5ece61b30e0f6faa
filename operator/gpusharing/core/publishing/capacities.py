"""How much there is of a device, and how much of it a claim gets.

Every capacity of a shared device has a policy with a default: without one, a plain request would take all of it.
"""

from typing import Any, Final

from gpusharing.api.names import Sharing
from gpusharing.api.sharing.offers import MpsOffer, Offers, TimeSlicingOffer
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.devices.gpu import Divisible, Engines, Gpu, MigProfile
from gpusharing.core.quantities import in_mebibytes, whole_mebibytes

Capacities = dict[str, Any]

# What a device whose offer nobody remembers says of itself while it closes: nobody new gets it anyway.
FORGOTTEN_CLIENTS: Final = 2
_UNDIVIDED: Final = ("0", "0")


def whole(gpu: Gpu, *, beside_mig: bool) -> Capacities:
    """Beside MIG devices a GPU can be compared with its parts."""
    engines = _engines(gpu.mig.largest) if gpu.mig and beside_mig else {}
    return engines | {"memory": {"value": in_mebibytes(gpu.memory_mib)}}


def time_sliced(gpu: Divisible, offer: TimeSlicingOffer | None, allow: Allowance | None = None) -> Capacities:
    # Undivided, memory is a number to ask for that takes nothing away.
    memory = offer.memory if offer else None
    default, least = (memory.default, memory.min) if memory else _UNDIVIDED
    return {
        "shares": _shares(offer.max_clients if offer else FORGOTTEN_CLIENTS, allow),
        "memory": _memory(gpu, default, least, None, allow),
    }


def mps(gpu: Divisible, offer: MpsOffer | None, allow: Allowance | None = None) -> Capacities:
    if offer is None:
        total = in_mebibytes(gpu.usable_mib)
        return {
            "shares": _shares(FORGOTTEN_CLIENTS, allow),
            "memory": _divided(total, total, total, total),
            "threads": _divided("100", "100", "100", "100"),
        }
    memory, threads = offer.memory, offer.threads
    most_threads = max(threads.default, allow.max_threads) if allow and allow.max_threads else 100
    return {
        "shares": _shares(offer.max_clients, allow),
        "memory": _memory(gpu, memory.default, memory.min, memory.max, allow),
        "threads": _divided("100", str(threads.default), str(threads.min), str(most_threads), step="1"),
    }


def totals(gpu: Divisible, offers: Offers, sharing: Sharing) -> dict[str, str]:
    """What all claims on a shared device have together; nothing where nobody remembers the offer."""
    if sharing is Sharing.TIME_SLICING and offers.time_slicing:
        found = time_sliced(gpu, offers.time_slicing)
    elif sharing is Sharing.MPS and offers.mps:
        found = mps(gpu, offers.mps)
    else:
        return {}
    return {name: capacity["value"] for name, capacity in found.items()}


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


def _shares(clients: int, allow: Allowance | None) -> dict[str, Any]:
    most = min(clients, allow.max_shares) if allow and allow.max_shares else clients
    return _divided(str(clients), "1", "1", str(most), step="1")


def _memory(gpu: Divisible, default: str, least: str, most: str | None, allow: Allowance | None) -> dict[str, Any]:
    said = [whole_mebibytes(amount) for amount in (most, allow.max_memory if allow else None) if amount]
    # The API has no range without its default. Where that is not allowed, the device is on its way out.
    bound = max(whole_mebibytes(default), min([gpu.usable_mib, *said]))
    return _divided(in_mebibytes(gpu.usable_mib), default, least, in_mebibytes(bound))


def _divided(total: str, default: str, least: str, most: str, *, step: str | None = None) -> dict[str, Any]:
    limits = {"min": least} | ({"step": step} if step else {}) | {"max": most}
    return {"value": total, "requestPolicy": {"default": default, "validRange": limits}}
