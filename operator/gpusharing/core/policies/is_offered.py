"""Is this device offered on this GPU? The one answer for rollouts, verdicts and Events."""

from collections.abc import Mapping, Sequence

from gpusharing.api import names
from gpusharing.api.names import DeviceName, Sharing
from gpusharing.api.sharing.gpu_models import GpuModel
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.offers import MigOffer
from gpusharing.core.devices import layout, reported_models
from gpusharing.core.state.node_view import Place


def is_offered(place: Place, entry: GpuSharing, status: GpuStatus, models: Sequence[GpuModel]) -> bool:
    """`entry`: what is decided for the GPU; `status` and `models`: what its agent reports."""
    name = names.read_device(place.device)
    if name is None or names.policy_of_pool(place.pool) != entry.restricted_to:
        return False
    if entry.offers is None:
        return name.sharing is (Sharing.MIG if _was_found_cut(status) else Sharing.EXCLUSIVE)
    match name.sharing:
        case Sharing.EXCLUSIVE:
            return entry.offers.exclusive is not None
        case Sharing.TIME_SLICING:
            return entry.offers.time_slicing is not None
        case Sharing.MPS:
            return entry.offers.mps is not None
        case Sharing.MIG:
            return entry.offers.mig is not None and _has_place(place.device, name, entry.offers.mig, status, models)


def lacks_instances(layout: Mapping[str, int], gpu: GpuStatus) -> bool:
    """Whether instances of a static layout are missing."""
    found = [instance.profile for instance in gpu.instances]
    return any(found.count(profile) < count for profile, count in layout.items())


def _was_found_cut(gpu: GpuStatus) -> bool:
    return gpu.mig_mode is not None and gpu.mig_mode.found


def _has_place(device: str, name: DeviceName, offer: MigOffer, status: GpuStatus, models: Sequence[GpuModel]) -> bool:
    """Whether its profile is offered, and in a static layout also its place."""
    profiles = offer.profiles or tuple(offer.layout or ())
    place = name.place
    known = {names.mig_device(name.slot, profile, place) for profile in profiles} if place else set()
    if names.at_revision(device, 0) not in known:
        return False
    if offer.layout is None or not lacks_instances(offer.layout, status):
        return True
    model = reported_models.reported(status, models)
    places = layout.places(offer.layout, model) if model.mig else None
    return places is None or place in places
