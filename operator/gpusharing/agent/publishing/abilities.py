"""Which of a GPU's offers this agent can carry out. Nothing else is published."""

from gpusharing.api.sharing.gpu_status import MemoryWallSupport
from gpusharing.api.sharing.offers import Enforcement, Offers, TimeSlicingOffer


def preparable(offers: Offers, memory_wall: MemoryWallSupport) -> Offers:
    """Walls only where they can be, whatever was decided before that changed."""
    return Offers(
        exclusive=offers.exclusive,
        time_slicing=offers.time_slicing if memory_wall.supported else _without_walls(offers.time_slicing),
        mps=offers.mps,
        mig=offers.mig,
    )


def _without_walls(offer: TimeSlicingOffer | None) -> TimeSlicingOffer | None:
    needs_wall = offer is not None and offer.memory is not None and offer.memory.enforcement is Enforcement.REQUIRED
    return None if needs_wall else offer
