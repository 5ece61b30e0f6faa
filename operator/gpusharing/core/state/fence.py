"""Devices that the closing guard refuses, by their pools: what stands in its literal.

A device that is no longer offered is refused while it is still published, and for an hour after that: a decision of the
scheduler for it may be on its way for so long, while the GPU is already used otherwise. A decision that was made late
looks like a new one. So nobody gets the device by that name, and if it is offered again, it has another one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from gpusharing.api import names


@dataclass(frozen=True, slots=True)
class Closed:
    """Devices of one pool."""

    since: str
    """When this was decided."""
    items: tuple[str, ...]
    """Each a device, all MIG devices of a GPU (`gpu-0-mig`), or all devices of a GPU (`0`)."""
    over_since: str | None = None
    """Since when none of them is published; None while one is."""


Fence = Mapping[str, Sequence[Closed]]
"""By pool."""


class Phase(Enum):
    CLOSING = "Closing"
    """Something of it is still published."""
    OVER = "Over"
    """Nothing of it is published: a decision of before may still be on its way."""
    OPEN = "Open"
    """It is offered again, and was never withdrawn."""


class PoolReport(NamedTuple):
    """What is known of one pool."""

    to_close: frozenset[str]
    """Items: what is closing because it is not offered any more."""
    published: frozenset[str]
    """Devices, also those that are closing."""
    held: frozenset[str]
    """Devices that claims hold."""

    def phase(self, item: str) -> Phase:
        """Of an item that the guard has."""
        published = {device for device in self.published if names.is_covered(device, [item])}
        if item in self.to_close:
            return Phase.CLOSING
        if not published:
            return Phase.OVER
        # What is held was held before the guard refused it, so that no withdrawal was approved. Of anything else the
        # agent may just be following an approval.
        return Phase.OPEN if published & self.held else Phase.CLOSING


Closing = Mapping[str, PoolReport]
"""By pool."""


def is_closed(fence: Fence, pool: str, device: str) -> bool:
    return any(names.is_covered(device, closed.items) for closed in fence.get(pool, ()))


def as_items(devices: Iterable[str], *, leaves_pool: bool, cuts: bool) -> set[str]:
    """Devices of one GPU in as few items as cover nothing that the GPU offers, now or soon. `leaves_pool`: it offers
    nothing in this pool. `cuts`: it offers MIG instances."""
    items: set[str] = set()
    for device in devices:
        _, kind, gpu = names.items_of_device(device)
        items.add(gpu if leaves_pool else device if cuts else kind)
    return items
