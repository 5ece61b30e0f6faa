"""What the API says is allocated of a GPU, and which of its closing devices nobody can hold any more."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_spec import AllocatedDevice, GpuSharing
from gpusharing.core.memo import Kept
from gpusharing.core.rollout.disturbance import GpuView, Hold
from gpusharing.core.state.touched import Touched
from gpusharing.core.timestamps import seconds


class _Case(NamedTuple):
    """All that the word on a GPU is made of."""

    gpu: GpuSharing
    told: GpuSharing | None
    """What was said last."""
    holds: tuple[Hold, ...]
    close_approved: tuple[str, ...]


KeptOccupancy: TypeAlias = Kept[_Case, GpuSharing]


def with_occupancy(
    gpus: Sequence[GpuSharing],
    views: Sequence[GpuView],
    before: Iterable[GpuSharing] = (),
    *,
    idle_wait: float,
    now: str,
    kept: KeptOccupancy | None = None,
    touched: Touched | None = None,
) -> tuple[GpuSharing, ...]:
    """`views`: of the same GPUs. `before`: what was said last. `kept`: what was said of each last time. `touched`:
    since then."""
    kept = Kept() if kept is None else kept
    ended_before = seconds(now) - idle_wait
    told = {gpu.uuid: gpu for gpu in before}
    cases = {
        gpu.uuid: _Case(gpu, told.get(gpu.uuid), view.holds, _close_approved(view, ended_before))
        for gpu, view in zip(gpus, views, strict=True)
        if touched is None or gpu.uuid in touched.gpus
    }
    return tuple((kept.some if touched else kept.all)(_occupied, cases))


def _occupied(case: _Case) -> GpuSharing:
    allocated = (AllocatedDevice(claim=hold.uid, device=hold.device, share_id=hold.share_id) for hold in case.holds)
    held = {"allocated": tuple(sorted(allocated, key=_order)), "close_approved": case.close_approved}
    entry = case.gpu.model_copy(update=held)
    # There need not be two of them for as long as nothing else is said.
    return case.told if entry == case.told else entry


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


def _close_approved(gpu: GpuView, ended_before: float) -> tuple[str, ...]:
    """Only after the whole wait: a decision of the scheduler that was on its way is among the allocated by then."""
    closed = [
        published.device
        for published in gpu.status.published
        if published.closing_since is not None and seconds(published.closing_since) <= ended_before
    ]
    held = {hold.device for hold in gpu.holds} if closed else ()
    return tuple([device for device in closed if device not in held])
