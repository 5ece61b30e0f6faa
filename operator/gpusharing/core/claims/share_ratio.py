"""What part of a GPU its claims were promised, and how much of its memory: for bills, and to compare with their use.

The ratios of a GPU's claims never add up to more than 1. So they come from one amount, of which the scheduler gives no
more than there is: of shared devices memory where the policy divides it, and shares where it does not; of MIG devices
memory slices. What changed under claims that stay (a policy now allows fewer clients) scales all of them down.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.names import MigPlace, Sharing
from gpusharing.core import quantities
from gpusharing.core.devices.gpu import Divisible, MigProfile

Capacities = Mapping[str, Mapping[str, Any]]
"""As a device of a ResourceSlice has them."""

_NOTHING: Final = Fraction(0)
_ALL: Final = Fraction(1)
_MEBIBYTE: Final = 1024**2


class Held(NamedTuple):
    """A device of a GPU that is allocated to a claim."""

    device: str
    consumed: Mapping[str, str]
    """The `consumedCapacity` of the allocation."""
    admin: bool = False


class Promise(NamedTuple):
    ratio: Fraction
    """Of the GPU."""
    memory_mib: int
    """0 where the policy does not divide it, and the claim did not ask for any."""


def promises(gpu: Divisible, held: Sequence[Held], published: Mapping[str, Capacities]) -> list[Promise]:
    """`held`: all devices of one GPU, of whichever claims. `published`: capacities by device; of one that is not
    published any more nobody knows how it was divided, and those who hold it have the GPU between them."""
    ratios = [_ratio(gpu, one, published.get(one.device, {})) for one in held]
    too_much = max(_ALL, sum(ratios, start=_NOTHING))
    return [Promise(ratio / too_much, _memory_mib(gpu, one)) for one, ratio in zip(held, ratios, strict=True)]


def _ratio(gpu: Divisible, held: Held, capacities: Capacities) -> Fraction:
    name = names.read_device(held.device)
    if held.admin or name is None:
        return _NOTHING
    if name.place:
        return _part_of_memory_slices(gpu, name.place)
    if name.sharing is Sharing.EXCLUSIVE:
        return _ALL
    for capacity in ("memory", "shares") if is_memory_divided(capacities) else ("shares",):
        taken, total = amount(held.consumed.get(capacity)), amount(capacities.get(capacity, {}).get("value"))
        # Memory of a claim that was there before the policy divided it is not counted.
        if taken and total:
            return min(_ALL, taken / total)
    return _ALL


def is_memory_divided(capacities: Capacities) -> bool:
    """Whether each client of a shared device takes some of its memory."""
    policy = capacities.get("memory", {}).get("requestPolicy") or {}
    return amount(policy.get("default")) > 0


def amount(quantity: object) -> Fraction:
    """0 of what is none."""
    try:
        return quantities.exact(str(quantity))
    except ValueError:
        return _NOTHING


def _part_of_memory_slices(gpu: Divisible, place: MigPlace) -> Fraction:
    profile = _profile(gpu, place)
    if gpu.mig is None or profile is None:
        # What the driver does not know may be anywhere on the GPU.
        return _ALL
    return Fraction(profile.size, max(one.size + start for one in gpu.mig.profiles for start in one.starts))


def _memory_mib(gpu: Divisible, held: Held) -> int:
    name = names.read_device(held.device)
    if held.admin or name is None:
        return 0
    if name.place:
        profile = _profile(gpu, name.place)
        return profile.memory_mib if profile else 0
    if name.sharing is Sharing.EXCLUSIVE:
        return gpu.usable_mib
    return min(gpu.usable_mib, int(amount(held.consumed.get("memory")) / _MEBIBYTE))


def _profile(gpu: Divisible, place: MigPlace) -> MigProfile | None:
    return gpu.mig.profile(place.profile_id) if gpu.mig else None
