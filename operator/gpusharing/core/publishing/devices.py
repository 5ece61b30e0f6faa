"""The devices of one GPU as the API has them."""

from collections.abc import Sequence
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.offers import Offers
from gpusharing.core.devices import counters, options
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.devices.options import Option
from gpusharing.core.publishing import attributes, capacities
from gpusharing.core.publishing.entries import Entry, Standing
from gpusharing.core.publishing.menu import menu

Device = dict[str, Any]

# Limit of resource.k8s.io/v1.
_ATTRIBUTES_AND_CAPACITIES: Final = 32

_TAINTS: Final = {Standing.CLOSING: names.CLOSING, Standing.DRAINING: names.DRAINING}


def full_menu(offered: OfferedGpu) -> tuple[Entry, ...]:
    """Everything that is offered, open to everybody."""
    policy = offered.policy.name if offered.policy else None
    return tuple(Entry(device=option.device, policy=policy) for option in menu(offered))


def devices(offered: OfferedGpu, entries: Sequence[Entry]) -> list[Device]:
    """In the order in which the scheduler shall consider them."""
    shown = [options.of_device(offered.gpu, entry.device) for entry in entries]
    # Counters cost the scheduler dearly: they are there only where something excludes something.
    counted = not options.can_be_held_together(offered.gpu, shown)
    return [_device(offered, option, entry, counted=counted) for option, entry in zip(shown, entries, strict=True)]


def attributes_of(offered: OfferedGpu, device: str) -> attributes.Attributes:
    """What selectors see of one that is open to everybody."""
    entry = Entry(device=device, policy=offered.policy.name if offered.policy else None)
    described: attributes.Attributes = _described(offered, options.of_device(offered.gpu, device), entry)["attributes"]
    return described


def capacities_of(offered: OfferedGpu, device: str) -> capacities.Capacities:
    """How much there is of one, as its ResourceSlice says."""
    option = options.of_device(offered.gpu, device)
    described: capacities.Capacities = _described(offered, option, Entry(device=device)).get("capacity", {})
    return described


def remembered(wanted: Offers, before: Offers, entries: Sequence[Entry]) -> Offers:
    """The offers to describe these devices by: a way that ended is described as it was as long as it is published."""
    shown = {names.sharing_of_device(entry.device) for entry in entries}
    return Offers(
        exclusive=wanted.exclusive or (before.exclusive if Sharing.EXCLUSIVE in shown else None),
        time_slicing=wanted.time_slicing or (before.time_slicing if Sharing.TIME_SLICING in shown else None),
        mps=wanted.mps or (before.mps if Sharing.MPS in shown else None),
        mig=wanted.mig or (before.mig if Sharing.MIG in shown else None),
    )


def _device(offered: OfferedGpu, option: Option, entry: Entry, *, counted: bool) -> Device:
    device = {"name": entry.device, **_described(offered, option, entry)}
    if counted:
        device["consumesCounters"] = counters.consumption(offered.gpu, option.draw)
    if taints := _taints(offered, entry):
        device["taints"] = taints
    return device


def _described(offered: OfferedGpu, option: Option, entry: Entry) -> Device:
    gpu, offers = offered.gpu, offered.offers
    match option.sharing:
        case Sharing.EXCLUSIVE:
            capacity = capacities.whole(gpu, beside_mig=offers.mig is not None)
            return {"attributes": attributes.undivided(offered, option.sharing, entry), "capacity": capacity}
        case Sharing.TIME_SLICING:
            capacity = capacities.time_sliced(gpu, offers.time_slicing, offered.allow)
        case Sharing.MPS:
            capacity = capacities.mps(gpu, offers.mps, offered.allow)
        case Sharing.MIG:
            return _mig(offered, entry)
    return {
        "attributes": attributes.undivided(offered, option.sharing, entry),
        "allowMultipleAllocations": True,
        "capacity": capacity,
    }


def _mig(offered: OfferedGpu, entry: Entry) -> Device:
    name = names.read_device(entry.device)
    place = name.place if name else None
    profile = offered.gpu.mig.profile(place.profile_id) if offered.gpu.mig and place else None
    if place is None or profile is None:
        # The driver does not know the profile any more: what is left of the device is that it was there.
        return {"attributes": attributes.undivided(offered, Sharing.MIG, entry)}
    existing = next((instance for instance in offered.instances if instance.place == place), None)
    made = next((instance for instance in (*offered.instances, *offered.made) if instance.place == place), None)
    described = attributes.mig(offered, profile, made.uuid if made else None, entry)
    capacity = capacities.mig_instance(profile)
    if existing:
        slices = capacities.memory_slices(profile, place.start)
        # On the largest instances there is no room to tell all of them, and half of it would be wrong.
        if len(described) + len(capacity) + len(slices) <= _ATTRIBUTES_AND_CAPACITIES:
            capacity |= slices
    return {"attributes": described, "capacity": capacity}


def _taints(offered: OfferedGpu, entry: Entry) -> list[dict[str, str]]:
    taints = [] if offered.configured else [{"key": names.UNCONFIGURED_TAINT, "effect": "NoSchedule"}]
    if entry.standing is not Standing.OPEN:
        # Kubernetes evicts by claim, and what a claim tolerates counts.
        evicts = entry.standing is Standing.DRAINING and offered.evicts
        taints.append({"key": _TAINTS[entry.standing], "effect": "NoExecute" if evicts else "NoSchedule"})
    if offered.agent_stopped:
        taints.append({"key": names.AGENT_STOPPED_TAINT, "effect": "NoSchedule"})
    if entry.device in offered.held:
        taints.append({"key": names.HELD_TAINT, "effect": "NoSchedule"})
    if reason := offered.unhealthy.get(entry.device):
        taints.append({"key": names.UNHEALTHY_TAINT, "value": reason, "effect": "NoSchedule"})
    return taints
