"""What the API says is allocated of a GPU, and which of its closing devices nobody can hold any more."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_spec import AllocatedDevice, GpuSharing
from gpusharing.core.memo import Memo
from gpusharing.core.state.node_view import GpuView, Hold
from gpusharing.core.timestamps import seconds


class _Case(NamedTuple):
    """All that the entry of a GPU is made of."""

    gpu: GpuSharing
    written: GpuSharing | None
    """As it was written last."""
    holds: tuple[Hold, ...]
    close_approved: tuple[str, ...]


OccupancyMemo: TypeAlias = Memo[_Case, GpuSharing]


def with_occupancy(
    gpus: Sequence[GpuSharing],
    views: Mapping[str, GpuView],
    written: Iterable[GpuSharing] = (),
    *,
    idle_wait: float,
    now: str,
    memo: OccupancyMemo | None = None,
) -> tuple[GpuSharing, ...]:
    """`views`: of the same GPUs, by uuid. `written`: entries as they were written last."""
    closing_until = seconds(now) - idle_wait
    last = {gpu.uuid: gpu for gpu in written}
    cases = {
        gpu.uuid: _Case(gpu, last.get(gpu.uuid), views[gpu.uuid].holds, _close_approved(views[gpu.uuid], closing_until))
        for gpu in gpus
    }
    return tuple((memo or Memo()).map(_occupied, cases))


def _occupied(case: _Case) -> GpuSharing:
    allocated = (
        AllocatedDevice(claim=hold.uid, device=hold.result.device, share_id=hold.result.share_id) for hold in case.holds
    )
    held = {"allocated": tuple(sorted(allocated, key=_order)), "close_approved": case.close_approved}
    entry = case.gpu.model_copy(update=held)
    # The same object as long as it says the same: comparing is faster then.
    return case.written if entry == case.written else entry


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


def _close_approved(gpu: GpuView, closing_until: float) -> tuple[str, ...]:
    """Only after the whole wait: a decision of the scheduler that was on its way is among the allocated by then."""
    closed = [
        published.device
        for published in gpu.status.published
        if published.closing_since is not None and seconds(published.closing_since) <= closing_until
    ]
    held = {hold.result.device for hold in gpu.holds} if closed else ()
    return tuple([device for device in closed if device not in held])
