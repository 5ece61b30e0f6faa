"""Where a claim could go, if the scheduler knew all that is so."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from building.boards import board
from cluster.narrowing.allocations import CLIENTS, MODEL, Place
from cluster.narrowing.bed import EVERYTHING, HALF, MPS, PART, SHARE, WHOLE, Wish
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.offers import Offers
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.devices.options import Option, can_be_held_together, of_device
from gpusharing.core.policies.resolution import resolve
from gpusharing.core.publishing.menu import menu

_SHARING: Final = {WHOLE: Sharing.EXCLUSIVE, SHARE: Sharing.TIME_SLICING, MPS: Sharing.MPS}
_LABELS: Final = {PART: "-1g10gb-", HALF: "-3g40gb-"}


class Room:
    def __init__(self, holders: Mapping[Place, Mapping[str, str]]) -> None:
        """The device of each claim, on each GPU."""
        self._held = {place: list(devices.values()) for place, devices in holders.items()}

    def __str__(self) -> str:
        return "; ".join(f"{place.node}/{place.slot}: {held}" for place, held in sorted(self._held.items()))

    def find(self, wish: Wish) -> bool:
        """And takes it, so that two claims are not told of the same place."""
        for place in self._published_for(wish):
            device = _free(place.slot, tuple(sorted(self._held[place])), wish)
            if device:
                self._held[place].append(device)
                return True
        return False

    def _published_for(self, wish: Wish) -> Iterable[Place]:
        """Those in use, and of the idle ones for all but whole GPUs the one with the menu, the first of its node."""
        idle: defaultdict[str, list[Place]] = defaultdict(list)
        for place, held in sorted(self._held.items()):
            if held:
                yield place
            else:
                idle[place.node].append(place)
        for places in idle.values():
            yield from places if wish == WHOLE else places[:1]


@cache
def _free(slot: int, held: tuple[str, ...], wish: Wish) -> str | None:
    gpu = board(MODEL, slot)
    count = Counter(held)
    taken = [of_device(gpu, device) for device in count]
    for option in _menu(slot):
        most = CLIENTS if option.sharing in {Sharing.TIME_SLICING, Sharing.MPS} else 1
        others = [other for other in taken if other.device != option.device]
        if _is_for(option, wish) and count[option.device] < most and can_be_held_together(gpu, [*others, option]):
            return option.device
    return None


@cache
def _menu(slot: int) -> tuple[Option, ...]:
    gpu = board(MODEL, slot)
    profiles = tuple(profile.name for profile in gpu.mig.profiles) if gpu.mig else ()
    resolution = resolve(Offers.model_validate(EVERYTHING), gpu=gpu, mig_profiles=profiles)
    return menu(OfferedGpu(gpu=gpu, offers=resolution.offers, policy=None, configured=True))


def _is_for(option: Option, wish: Wish) -> bool:
    return _LABELS[wish] in option.device if wish in _LABELS else option.sharing is _SHARING[wish]
