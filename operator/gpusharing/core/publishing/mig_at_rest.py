"""How a GPU is to be cut while no claim says otherwise: static layouts, and MIG mode where Prepare cannot switch it."""

from collections.abc import Collection
from dataclasses import dataclass

from gpusharing.api import names
from gpusharing.api.names import MigPlace, Sharing
from gpusharing.core.devices import layout
from gpusharing.core.devices.gpu import Gpu, MigInstance
from gpusharing.core.devices.offered import OfferedGpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    places: frozenset[MigPlace] = frozenset()
    """Instances that stay, whether somebody holds them or not."""
    mig_mode: bool | None = None
    """None: it is left as it is."""
    problem: str | None = None
    """Why the layout cannot be had."""


AS_IT_IS = Cut()


def at_rest(
    offered: OfferedGpu, *, held: Collection[str], published: Collection[str], found_enabled: bool | None
) -> Cut:
    """`offered.instances` are those of others only; `held` are devices that claims have prepared or allocated, and
    `found_enabled` is MIG mode before we changed it, None: we have not.

    Claims come first: a GPU that is held in another way than its layout becomes as it should be when they have left.
    """
    mig = offered.gpu.mig
    if mig is None:
        return AS_IT_IS
    mig_mode = _mig_mode(offered, held, published, found_enabled) if mig.switch_resets_gpu else None
    wanted = offered.offers.mig.layout if offered.offers.mig else None
    if not wanted or (mig.switch_resets_gpu and not offered.mig_enabled and not mig_mode):
        return Cut(mig_mode=mig_mode)
    found = layout.places(wanted, offered.gpu, [instance.place for instance in offered.instances])
    if found is None:
        return Cut(mig_mode=mig_mode, problem=_no_room(offered))
    fits = {names.read_device(device) for device in held} <= {
        names.DeviceName(offered.gpu.slot, Sharing.MIG, place)
        for place in (*found, *(instance.place for instance in offered.instances))
    }
    return Cut(mig_mode=mig_mode, places=frozenset(found) if fits else frozenset())


def _mig_mode(
    offered: OfferedGpu, held: Collection[str], published: Collection[str], found_enabled: bool | None
) -> bool | None:
    """The switch resets the GPU: nobody may be on it, or on the way to it."""
    sharings = {names.sharing_of_device(device) for device in published}
    offers = offered.offers
    only_mig = offers.mig is not None and not (offers.exclusive or offers.time_slicing or offers.mps)
    if held or (sharings - {Sharing.MIG} if only_mig else Sharing.MIG in sharings):
        return None
    return True if only_mig else found_enabled


def _no_room(offered: OfferedGpu) -> str:
    policy = offered.policy.name if offered.policy else ""
    others = ", ".join(_describe(offered.gpu, instance) for instance in offered.instances)
    made_by_others = f" next to {others}, which other programs created" if others else ""
    return f"offers.mig.layout of policy {policy} does not fit{made_by_others}"


def _describe(gpu: Gpu, instance: MigInstance) -> str:
    profile = gpu.mig.profile(instance.place.profile_id) if gpu.mig else None
    return f"{profile.name if profile else f'profile {instance.place.profile_id}'} at {instance.place.start}"
