"""Which of a GPU's offers the agent can carry out. Nothing else is published."""

from dataclasses import replace

from gpusharing.api.sharing.gpu_status import MemoryWallSupport
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.offers import Enforcement, Offers, TimeSlicingOffer
from gpusharing.core.devices.offered import OfferedGpu


def as_decided(found: OfferedGpu, decided: GpuSharing | None) -> OfferedGpu:
    """A GPU that was found, with what the operator wants of it."""
    if decided is None or decided.offers is None:
        return found
    possible = preparable(decided.offers, found.memory_wall)
    return replace(found, offers=possible, policy=decided.policy, allow=decided.allow)


def preparable(offers: Offers, memory_wall: MemoryWallSupport) -> Offers:
    """Walls only where they can be, whatever was decided before that changed."""
    return Offers(
        exclusive=offers.exclusive,
        time_slicing=offers.time_slicing if memory_wall.supported else _without_walls(offers.time_slicing),
        mps=offers.mps,
        mig=offers.mig,
    )


def menu_group(wanted: OfferedGpu) -> str:
    """GPUs that are offered alike have full menus together."""
    return f"{wanted.policy.name if wanted.policy else ''}/{wanted.gpu.product_name}"


def _without_walls(offer: TimeSlicingOffer | None) -> TimeSlicingOffer | None:
    needs_wall = offer is not None and offer.memory is not None and offer.memory.enforcement is Enforcement.REQUIRED
    return None if needs_wall else offer
