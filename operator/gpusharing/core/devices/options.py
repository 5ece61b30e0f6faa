"""The devices that a GPU can be published as, and which of them can be held at the same time."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpusharing.api import names
from gpusharing.api.names import MigPlace, Sharing
from gpusharing.core.devices import counters
from gpusharing.core.devices.gpu import Divisible, Gpu, MigProfile


@dataclass(frozen=True, slots=True)
class Option:
    device: str
    sharing: Sharing
    draw: counters.Draw
    """Of the GPU's counters."""


def whole(gpu: Gpu) -> Option:
    return Option(names.whole_device(gpu.slot), Sharing.EXCLUSIVE, counters.whole(gpu))


def time_sliced(gpu: Gpu) -> Option:
    return Option(names.time_sliced_device(gpu.slot), Sharing.TIME_SLICING, counters.whole(gpu))


def mps(gpu: Gpu) -> Option:
    return Option(names.mps_device(gpu.slot), Sharing.MPS, counters.whole(gpu))


def mig_instance(gpu: Gpu, profile: MigProfile, start: int) -> Option:
    device = names.mig_device(gpu.slot, profile.name, MigPlace(profile.id, start))
    return Option(device, Sharing.MIG, counters.mig_instance(profile, start))


def of_device(gpu: Gpu, device: str) -> Option:
    """The option behind a device that was published earlier."""
    name = names.read_device(device)
    if name is None or name.slot != gpu.slot:
        raise ValueError(f"{device} is not a device of GPU {gpu.slot}")
    return Option(device, name.sharing, draw_of_place(gpu, name.place) if name.place else counters.whole(gpu))


def draw_of_place(gpu: Divisible, place: MigPlace) -> counters.Draw:
    profile = gpu.mig.profile(place.profile_id) if gpu.mig else None
    # What the driver does not know may be anywhere on the GPU.
    return counters.mig_instance(profile, place.start) if profile else counters.whole(gpu)


def exclude_each_other(gpu: Gpu, one: str, other: str) -> bool:
    """Whether two claims may not have these devices of one GPU at the same time."""
    sharing = names.sharing_of_device(one)
    if sharing is not names.sharing_of_device(other):
        return True
    if sharing is Sharing.MIG:
        return not can_be_held_together(gpu, [of_device(gpu, one), of_device(gpu, other)])
    return sharing is Sharing.EXCLUSIVE


def can_be_held_together(gpu: Gpu, options: Iterable[Option]) -> bool:
    return counters.fit((option.draw for option in options), counters.supply(gpu))
