"""Every way in which a GPU is offered, in the order in which the scheduler shall consider them."""

from collections.abc import Iterator

from gpusharing.api.names import Sharing
from gpusharing.core.devices import counters, options
from gpusharing.core.devices.gpu import MigSupport
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.devices.options import Option
from gpusharing.core.devices.placements import in_order

Menu = tuple[Option, ...]


def menu(offered: OfferedGpu) -> Menu:
    if _is_cut_for_good(offered):
        return tuple(_as_they_are(offered))
    if _can_only_be_cut(offered):
        return tuple(_cut_on_demand(offered))
    return (*_undivided(offered), *_cut_on_demand(offered))


def whole_only(full: Menu) -> Menu:
    """The least that a GPU offers while nobody holds it. What is not offered whole has nothing less to offer."""
    return tuple(option for option in full if option.sharing is Sharing.EXCLUSIVE) or full


def _is_cut_for_good(offered: OfferedGpu) -> bool:
    if offered.policy is None:
        return offered.mig_enabled
    return offered.offers.mig is not None and offered.offers.mig.layout is not None


def _can_only_be_cut(offered: OfferedGpu) -> bool:
    """Others have cut it, or it is in MIG mode and cannot leave it without a reset."""
    return bool(offered.instances) or (offered.mig_enabled and _switch_resets(offered.gpu.mig))


def _switch_resets(mig: MigSupport | None) -> bool:
    return mig is not None and mig.switch_resets_gpu


def _undivided(offered: OfferedGpu) -> Iterator[Option]:
    gpu, offers = offered.gpu, offered.offers
    if offers.exclusive:
        yield options.whole(gpu)
    if offers.time_slicing:
        yield options.time_sliced(gpu)
    if offers.mps:
        yield options.mps(gpu)


def _as_they_are(offered: OfferedGpu) -> Iterator[Option]:
    mig = offered.gpu.mig
    for instance in sorted(offered.instances, key=lambda instance: instance.place.start):
        profile = mig.profile(instance.place.profile_id) if mig else None
        # Without the one MIG device that programs see, nobody could use it.
        if profile and instance.uuid:
            yield options.mig_instance(offered.gpu, profile, instance.place.start)


def _cut_on_demand(offered: OfferedGpu) -> Iterator[Option]:
    gpu, offer = offered.gpu, offered.offers.mig
    if gpu.mig is None or offer is None or (gpu.mig.switch_resets_gpu and not offered.mig_enabled):
        return
    # Instances that are not ours are left alone, and what overlaps them cannot be cut.
    in_the_way = [options.draw_of_place(gpu, instance.place) for instance in offered.instances]
    available = counters.supply(gpu)
    profiles = tuple(profile for profile in gpu.mig.profiles if profile.name in (offer.profiles or ()))
    for profile, start in in_order(profiles):
        option = options.mig_instance(gpu, profile, start)
        if counters.fit([*in_the_way, option.draw], available):
            yield option
