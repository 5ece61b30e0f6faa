"""Devices that the closing guard refuses, by their pools: what stands in its literal.

A device that is no longer offered is closed to all claims while it is still published. After that it stays closed to
claims of before: a decision of the scheduler for one of them may be on its way for as long as an hour, while the GPU is
already used otherwise. Claims of after have been decided on what was published then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpusharing.api import names

TO_ALL: Final = "9999-12-31T23:59:59Z"
"""Every claim was created before that."""


@dataclass(frozen=True, slots=True)
class Closed:
    """Devices of one pool."""

    since: str
    """When this was decided."""
    before: str
    """It is closed to claims that were created before this moment."""
    items: tuple[str, ...]
    """Each a device, all MIG devices of a GPU (`gpu-0-mig`), or the slot of a GPU (`0`)."""

    @property
    def is_to_all(self) -> bool:
        return self.before == TO_ALL


Fence = Mapping[str, Sequence[Closed]]
"""By pool."""


class PoolReport(NamedTuple):
    """What an agent reports of one pool."""

    to_close: frozenset[str]
    """Items: what is closing because it is not offered any more."""
    closing: frozenset[str]
    """Devices, for whatever reason."""
    open: frozenset[str]
    """Devices that may be taken."""

    def keeps_closed(self, item: str) -> bool:
        """Whether what was closed to all stays so: an approval of before may still be on its way to the agent."""
        if item in self.to_close:
            return True
        return any(covers([item], device) for device in self.closing) and not any(
            covers([item], device) for device in self.open
        )


Closing = Mapping[str, PoolReport]
"""By pool."""


def covers(items: Iterable[str], device: str) -> bool:
    """The closing guard says the same in CEL."""
    return not _names_of(device).isdisjoint(items)


def is_closed_to_all(fence: Fence, pool: str, device: str) -> bool:
    return any(closed.is_to_all and covers(closed.items, device) for closed in fence.get(pool, ()))


def as_items(devices: Iterable[str], *, leaves_pool: bool, cuts: bool) -> set[str]:
    """Devices of one GPU in as few items as cover nothing that the GPU offers, now or soon. `leaves_pool`: it offers
    nothing in this pool. `cuts`: it offers MIG instances."""
    return {_slot(device) if leaves_pool else device if cuts else _kind(device) for device in devices}


def _names_of(device: str) -> set[str]:
    return {device, _kind(device), _slot(device)}


def _slot(device: str) -> str:
    slot = names.slot_of_device(device)
    return device if slot is None else str(slot)


def _kind(device: str) -> str:
    head, found, _ = device.partition("-mig-")
    return f"{head}-mig" if found else device
