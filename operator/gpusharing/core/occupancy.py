"""What the API says is allocated of a GPU, and which of its closing devices nobody can hold any more."""

from gpusharing.api import names
from gpusharing.api.sharing import AllocatedDevice, GpuSharing, GpuStatus
from gpusharing.core import allocation
from gpusharing.core.moments import seconds
from gpusharing.core.world import NodeView, World


def with_occupancy(
    gpu: GpuSharing, status: GpuStatus, view: NodeView, driver: str, *, idle_wait: float, now: str
) -> GpuSharing:
    allocated = _allocated(status, view, driver)
    approved = _close_approved(status, allocated, ended_before=seconds(now) - idle_wait)
    return gpu.model_copy(update={"allocated": allocated, "close_approved": approved})


def next_approval(world: World, *, now: str) -> float | None:
    """In how many seconds time alone will let something be withdrawn."""
    moments = [
        seconds(published.closing_since) + world.idle_wait - seconds(now)
        for sharing in world.node_sharings.values()
        for gpu in sharing.status.gpus
        for published in gpu.published
        if published.closing_since is not None
    ]
    return min((moment for moment in moments if moment > 0), default=None)


def _allocated(status: GpuStatus, view: NodeView, driver: str) -> tuple[AllocatedDevice, ...]:
    """Without those who only look."""
    found = [
        AllocatedDevice(claim=claim.metadata.uid, device=result.device, share_id=result.share_id)
        for claim in view.claims
        for result in allocation.results_on(claim, view.name, driver)
        if not result.admin_access and names.slot_of_device(result.device) == status.slot
    ]
    return tuple(sorted(found, key=lambda device: (device.claim, device.device, device.share_id or "")))


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
