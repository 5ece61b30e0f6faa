"""What the API says is allocated of a GPU, and which of its closing devices nobody can hold any more."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from gpusharing.api import names
from gpusharing.api.sharing import AllocatedDevice, GpuSharing, GpuStatus
from gpusharing.core import allocation
from gpusharing.core.moments import seconds
from gpusharing.core.world import NodeView


def with_occupancy(
    gpu: GpuSharing, status: GpuStatus, allocated: tuple[AllocatedDevice, ...], *, idle_wait: float, now: str
) -> GpuSharing:
    """`allocated`: what is allocated of this GPU."""
    approved = _close_approved(status, allocated, ended_before=seconds(now) - idle_wait)
    return gpu.model_copy(update={"allocated": allocated, "close_approved": approved})


def allocated_by_slot(view: NodeView, driver: str) -> Mapping[int, tuple[AllocatedDevice, ...]]:
    """Without those who only look."""
    found: defaultdict[int, list[AllocatedDevice]] = defaultdict(list)
    for claim in view.claims:
        for result in allocation.results(claim, driver):
            slot = names.slot_of_device(result.device)
            if slot is not None and not result.admin_access and names.node_of_pool(result.pool) == view.name:
                device = AllocatedDevice(claim=claim.metadata.uid, device=result.device, share_id=result.share_id)
                found[slot].append(device)
    return {slot: tuple(sorted(devices, key=_order)) for slot, devices in found.items()}


def next_approval(statuses: Iterable[GpuStatus], *, idle_wait: float, now: str) -> float | None:
    """When time alone will let something be withdrawn from one of the GPUs; None if it will not."""
    moments = (
        seconds(published.closing_since) + idle_wait
        for gpu in statuses
        for published in gpu.published
        if published.closing_since is not None
    )
    return min((moment for moment in moments if moment > seconds(now)), default=None)


def _order(device: AllocatedDevice) -> tuple[str, str, str]:
    return device.claim, device.device, device.share_id or ""


def _close_approved(
    status: GpuStatus, allocated: tuple[AllocatedDevice, ...], *, ended_before: float
) -> tuple[str, ...]:
    """Only after the whole wait: a decision of the scheduler that was on its way is among the allocated by then."""
    held = {device.device for device in allocated}
    return tuple(
        published.device
        for published in status.published
        if published.closing_since is not None
        and seconds(published.closing_since) <= ended_before
        and published.device not in held
    )
