"""How much of a GPU is taken and free in each mode that it is offered in."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.names import MigPlace, Sharing
from gpusharing.core.claims.share_ratio import Held, amount
from gpusharing.core.devices.gpu import MigSupport
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.devices.options import exclude_each_other
from gpusharing.core.publishing import capacities
from gpusharing.core.publishing.menu import menu


class Shares(NamedTuple):
    """Of a whole GPU 1, of a shared one the shares of its clients, of one that is cut memory slices."""

    taken: int
    free: int


def shares(wanted: OfferedGpu, held: Sequence[Held]) -> dict[Sharing, Shares]:
    """Of modes that are offered or in use. What is free in different modes excludes each other. Narrowing does not
    count: what is offered is published as soon as somebody can take it."""
    holding = [one for one in held if not one.admin and names.read_device(one.device)]
    devices = [option.device for option in menu(wanted) if option.device not in wanted.unhealthy]
    takable = [
        device
        for device in devices
        if not any(exclude_each_other(wanted.gpu, device, holder.device) for holder in holding)
    ]
    offered = {option.sharing for option in menu(wanted)}
    found: dict[Sharing, Shares] = {}
    for sharing in Sharing:
        mine = [one for one in holding if names.sharing_of_device(one.device) is sharing]
        if mine or sharing in offered:
            taken = _amount(wanted, sharing, mine)
            free = _free(wanted, sharing, [one for one in takable if names.sharing_of_device(one) is sharing], taken)
            found[sharing] = Shares(taken, free)
    return found


def _amount(wanted: OfferedGpu, sharing: Sharing, held: Sequence[Held]) -> int:
    match sharing:
        case Sharing.EXCLUSIVE:
            return min(1, len(held))
        case Sharing.MIG:
            return len(_memory_slices(wanted.gpu.mig, (one.device for one in held)))
    return sum(int(amount(one.consumed.get("shares"))) for one in held)


def _free(wanted: OfferedGpu, sharing: Sharing, takable: Sequence[str], taken: int) -> int:
    match sharing:
        case Sharing.EXCLUSIVE:
            return len(takable)
        case Sharing.MIG:
            return len(_memory_slices(wanted.gpu.mig, takable))
    total = int(amount(capacities.totals(wanted.gpu, wanted.offers, sharing).get("shares")))
    return max(0, total - taken) if takable else 0


def _memory_slices(mig: MigSupport | None, devices: Iterable[str]) -> set[int]:
    """Those that one of the instances lies on."""
    found = (names.read_device(device) for device in devices)
    places = [name.place for name in found if name and name.place]
    return {number for place in places for number in _slices_of(mig, place)}


def _slices_of(mig: MigSupport | None, place: MigPlace) -> range:
    profile = mig.profile(place.profile_id) if mig else None
    return range(place.start, place.start + profile.size) if profile else range(0)
