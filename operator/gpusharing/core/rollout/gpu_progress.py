"""How far a GPU is from what is decided for it: which claims block the change, and what the agent has still to do.

It is read from the API and the agent's report alone, so a new leader finds the same.
"""

from gpusharing.api import names
from gpusharing.api.sharing.gpu_status import HEALTHY, GpuStatus, Reason
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.offers import Offers
from gpusharing.core.policies.is_offered import is_offered, lacks_instances
from gpusharing.core.state.node_view import GpuView, Hold, Place


def blocking_holds(entry: GpuSharing, gpu: GpuView) -> tuple[Hold, ...]:
    """The holds that have to end before the entry is wholly in force."""
    return tuple([hold for hold in gpu.holds if not is_offered(hold.place, entry, gpu.status, gpu.models)])


def has_to_be_repartitioned(entry: GpuSharing, gpu: GpuView) -> bool:
    """Whether instances of a static layout are missing, or MIG mode has to be switched by a reset."""
    mig = entry.offers.mig if entry.offers else None
    if mig is not None and mig.layout is not None and lacks_instances(mig.layout, gpu.status):
        return True
    return _has_to_be_reset(entry, gpu)


def waits_for_withdrawal(entry: GpuSharing, gpu: GpuView) -> bool:
    """Whether the GPU has to be reset, and cannot be yet: devices that it no longer offers are still published."""
    if not _has_to_be_reset(entry, gpu):
        return False
    pool = gpu.status.pool or names.pool(gpu.node, restricted_to=entry.restricted_to)
    places = [Place(pool, published.device) for published in gpu.status.published]
    return not all(is_offered(place, entry, gpu.status, gpu.models) for place in places)


def failure(gpu: GpuStatus) -> str | None:
    """Why it cannot be used, or not in this mode."""
    healthy = next((condition for condition in gpu.conditions if condition.type == HEALTHY), None)
    if healthy is None or (healthy.status == "True" and healthy.reason != Reason.SETTING_NOT_APPLIED):
        return None
    return healthy.message


def is_offered_again(entry: GpuSharing, gpu: GpuStatus) -> bool:
    """Whether the agent acts on the entry, and the GPU can be taken."""
    return gpu.policy == entry.policy and can_be_taken(entry, gpu)


def can_be_taken(entry: GpuSharing, gpu: GpuStatus) -> bool:
    nothing_offered = entry.offers is None or entry.offers == Offers()
    return nothing_offered or any(device.closing_since is None for device in gpu.published)


def _has_to_be_reset(entry: GpuSharing, gpu: GpuView) -> bool:
    mode = gpu.status.mig_mode
    if mode is None or not any(model.model == gpu.status.model and model.switch_resets for model in gpu.models):
        return False
    offers = entry.offers
    only_mig = offers is not None and offers.mig is not None and offers == Offers(mig=offers.mig)
    return mode.enabled != (only_mig or mode.found)
