"""Who is in the way of what is decided for a GPU, and what of it has still to be done there.

All of it is read from what the API has and what the agent reports, so that it is the same whoever asks, and when.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.names import DeviceName, Sharing
from gpusharing.api.sharing.gpu_models import GpuModel
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_spec import Drain, GpuSharing
from gpusharing.api.sharing.offers import MigOffer, Offers
from gpusharing.core.claims import allocation
from gpusharing.core.claims.tolerations import tolerates
from gpusharing.core.devices import layout, reported_models
from gpusharing.core.publishing.gpu_health import HEALTHY, Reason
from gpusharing.core.state.node_view import NodeView

EVICT = Drain(mode="Evict")


class Hold(NamedTuple):
    """A claim's hold on a device."""

    uid: str
    claim: str
    """Its namespace and name."""
    pool: str
    device: str
    share_id: str | None = None
    stays: bool = False
    """Whether it tolerates for good that pods are evicted from what drains."""


class GpuView(NamedTuple):
    """One GPU as its agent reports it, and who holds it."""

    node: str
    status: GpuStatus
    models: tuple[GpuModel, ...]
    """What the node's agent says of models of GPUs."""
    holds: tuple[Hold, ...]
    is_prepared: bool
    """Whether the agent has prepared something of it."""


def gpu_views(view: NodeView, driver: str, only: AbstractSet[str] | None = None) -> dict[str, GpuView]:
    """By uuid; of all GPUs, or of these."""
    report, node = view.sharing.status, view.name
    statuses = [status for status in report.gpus if only is None or status.uuid in only]
    by_slot: dict[int | None, list[Hold]] = {status.slot: [] for status in statuses}
    for claim in view.claims:
        for result in allocation.results_on(claim, node, driver):
            slot = names.slot_of_device(result.device)
            # Who only looks is in nobody's way.
            if slot in by_slot and not result.admin_access:
                hold = Hold(
                    claim.metadata.uid,
                    allocation.display_name(claim),
                    result.pool,
                    result.device,
                    result.share_id,
                    bool(result.tolerations) and tolerates(result, names.DRAINING),
                )
                by_slot[slot].append(hold)
    prepared = {names.slot_of_device(device.device) for claim in report.claims for device in claim.settings}
    return {
        status.uuid: GpuView(node, status, report.models, tuple(by_slot[status.slot]), status.slot in prepared)
        for status in statuses
    }


def in_the_way(entry: GpuSharing, gpu: GpuView) -> tuple[str, ...]:
    """Claims that have to leave before the entry is wholly in force."""
    return tuple(sorted({hold.claim for hold in _holds_in_the_way(entry, gpu)}))


def not_evicted(entry: GpuSharing, gpu: GpuView) -> tuple[Hold, ...]:
    """Those of them whose pods are to be evicted, and whom nobody evicts."""
    return tuple(hold for hold in _holds_in_the_way(entry, gpu) if hold.stays) if entry.drain else ()


def _holds_in_the_way(entry: GpuSharing, gpu: GpuView) -> Iterator[Hold]:
    pool = pool_of(entry, gpu.node)
    return (hold for hold in gpu.holds if hold.pool != pool or not _is_offered(hold.device, entry, gpu))


def pool_of(entry: GpuSharing, node: str) -> str:
    return names.pool(node, restricted_to=entry.policy.name if entry.restricted and entry.policy else None)


def has_to_be_cut(entry: GpuSharing, gpu: GpuView) -> bool:
    """Whether MIG instances that are to be there always are missing, or MIG mode has to be switched by a reset."""
    return _lacks_instances(entry, gpu.status) or _has_to_be_reset(entry, gpu)


def failure(gpu: GpuStatus) -> str | None:
    """Why it cannot be used, or not in this way."""
    healthy = next((condition for condition in gpu.conditions if condition.type == HEALTHY), None)
    if healthy is None or (healthy.status == "True" and healthy.reason != Reason.DISOBEYS):
        return None
    return healthy.message


def is_offered_anew(entry: GpuSharing, gpu: GpuStatus) -> bool:
    """Whether the agent does what the entry says, and somebody new can get it or whoever has it has all of it."""
    return gpu.policy == entry.policy and can_be_had(entry, gpu)


def can_be_had(entry: GpuSharing, gpu: GpuStatus) -> bool:
    nothing_offered = entry.offers is None or entry.offers == Offers()
    return nothing_offered or any(device.closing_since is None for device in gpu.published)


def _is_offered(device: str, entry: GpuSharing, gpu: GpuView) -> bool:
    name = names.read_device(device)
    if name is None:
        return False
    if entry.offers is None:
        return name.sharing is (Sharing.MIG if _was_found_cut(gpu.status) else Sharing.EXCLUSIVE)
    match name.sharing:
        case Sharing.EXCLUSIVE:
            return entry.offers.exclusive is not None
        case Sharing.TIME_SLICING:
            return entry.offers.time_slicing is not None
        case Sharing.MPS:
            return entry.offers.mps is not None
        case Sharing.MIG:
            return entry.offers.mig is not None and _has_place(device, name, entry.offers.mig, gpu)


def _has_place(device: str, name: DeviceName, offer: MigOffer, gpu: GpuView) -> bool:
    """Whether it is of a kind that is offered, at a place where that is."""
    kinds = offer.profiles or tuple(offer.layout or ())
    place = name.place
    if place is None or device not in {names.mig_device(name.slot, kind, place) for kind in kinds}:
        return False
    if offer.layout is None or not _lacks(offer.layout, gpu.status):
        return True
    model = reported_models.reported(gpu.status, gpu.models)
    places = layout.places(offer.layout, model) if model.mig else None
    return places is None or place in places


def _was_found_cut(gpu: GpuStatus) -> bool:
    return gpu.mig_mode is not None and gpu.mig_mode.found


def _lacks_instances(entry: GpuSharing, gpu: GpuStatus) -> bool:
    mig = entry.offers.mig if entry.offers else None
    return mig is not None and mig.layout is not None and _lacks(mig.layout, gpu)


def _lacks(wanted: dict[str, int], gpu: GpuStatus) -> bool:
    found: Sequence[str] = [instance.profile for instance in gpu.instances]
    return any(found.count(profile) < count for profile, count in wanted.items())


def _has_to_be_reset(entry: GpuSharing, gpu: GpuView) -> bool:
    mode = gpu.status.mig_mode
    if mode is None or not any(model.model == gpu.status.model and model.switch_resets for model in gpu.models):
        return False
    offers = entry.offers
    only_mig = offers is not None and offers.mig is not None and offers == Offers(mig=offers.mig)
    return mode.enabled != (only_mig or mode.found)
