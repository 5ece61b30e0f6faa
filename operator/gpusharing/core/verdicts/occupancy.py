"""What the API says is allocated of a GPU, and which of its closing devices nobody can hold any more."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from gpusharing.api import names
from gpusharing.api.sharing.gpu_status import GpuStatus, PublishedDevice
from gpusharing.api.sharing.node_spec import AllocatedDevice, GpuSharing
from gpusharing.core.memo import Memo
from gpusharing.core.policies.is_offered import is_offered
from gpusharing.core.state.fence import Closing, Fence, Phase, PoolReport, as_items, is_closed
from gpusharing.core.state.node_view import GpuView, Hold, Place
from gpusharing.core.timestamps import seconds


class _Case(NamedTuple):
    """All that the entry of a GPU is made of."""

    gpu: GpuSharing
    written: GpuSharing | None
    """As it was written last."""
    holds: tuple[Hold, ...]
    close_approved: tuple[PublishedDevice, ...]
    closed_names: tuple[str, ...]


OccupancyMemo: TypeAlias = Memo[_Case, GpuSharing]


def with_occupancy(
    gpus: Sequence[GpuSharing],
    views: Mapping[str, GpuView],
    written: Iterable[GpuSharing] = (),
    *,
    fence: Fence,
    stored: Fence,
    withheld: Collection[str] = (),
    idle_wait: float,
    now: str,
    memo: OccupancyMemo | None = None,
) -> tuple[GpuSharing, ...]:
    """`views`: of the same GPUs, by uuid. `written`: entries as they were written last. `fence`: what was in
    force on all API servers before the claims were read. `stored`: what the closing guard has. `withheld`: GPUs of
    which nothing may be withdrawn yet."""
    closing_until = seconds(now) - idle_wait
    last = {gpu.uuid: gpu for gpu in written}
    cases: dict[str, _Case] = {}
    for gpu in gpus:
        view = views[gpu.uuid]
        approved = () if gpu.uuid in withheld else _close_approved(view, fence, closing_until)
        cases[gpu.uuid] = _Case(gpu, last.get(gpu.uuid), view.holds, approved, _closed_names(gpu, view, stored))
    return tuple((memo or Memo()).map(_occupied, cases))


def _occupied(case: _Case) -> GpuSharing:
    allocated = (
        AllocatedDevice(claim=hold.uid, device=hold.result.device, share_id=hold.result.share_id) for hold in case.holds
    )
    held = {
        "allocated": tuple(sorted(allocated, key=_order)),
        "close_approved": tuple(published.device for published in case.close_approved),
        "close_approved_since": tuple(published.closing_since for published in case.close_approved),
        "closed_names": case.closed_names,
    }
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


def closing_pools(gpus: Iterable[GpuSharing], views: Mapping[str, GpuView], stored: Fence) -> Closing:
    """What the closing guard has to know: of pools in which something is closing, and of those that it has already
    (`stored`)."""
    by_pool: defaultdict[str, list[PoolReport]] = defaultdict(list)
    for entry in gpus:
        view = views[entry.uuid]
        pool = view.status.pool
        # An agent speaks of its own node alone.
        if pool is None or names.node_of_pool(pool) != view.node:
            continue
        if pool in stored or any(one.closing_since is not None for one in _published(view)):
            by_pool[pool].append(_report(entry, view, pool))
    return {pool: PoolReport(*map(_union, zip(*reports, strict=True))) for pool, reports in by_pool.items()}


def _report(entry: GpuSharing, view: GpuView, pool: str) -> PoolReport:
    """Of what is closing, the guard should refuse what is not offered any more. The rest closes so that the scheduler
    has less to look at, for which nobody waits."""
    closing = [published.device for published in _published(view) if published.closing_since is not None]
    items = as_items(
        [device for device in closing if not is_offered(Place(pool, device), entry, view.status, view.models)],
        leaves_pool=pool != _pool_of(entry, view),
        cuts=entry.offers is not None and entry.offers.mig is not None,
    )
    published = frozenset(published.device for published in _published(view))
    return PoolReport(frozenset(items), published, _held_in(pool, view))


def _closed_names(entry: GpuSharing, view: GpuView, stored: Fence) -> tuple[str, ...]:
    """Items of the guard that would keep claims from what the GPU is to publish. What is closing for good is no matter,
    nor is what the guard is about to open."""
    pool = _pool_of(entry, view)
    items = {
        item for one in stored.get(pool, ()) for item in one.items if names.slot_of_item(item) == str(view.status.slot)
    }
    if not items:
        return ()
    is_here = pool == view.status.pool
    report = _report(entry, view, pool) if is_here else PoolReport(frozenset(), frozenset(), _held_in(pool, view))
    return tuple(sorted(item for item in items - report.to_close if report.phase(item) is not Phase.OPEN))


def _pool_of(entry: GpuSharing, view: GpuView) -> str:
    """Where it belongs."""
    return names.pool(view.node, restricted_to=entry.restricted_to)


def _held_in(pool: str, view: GpuView) -> frozenset[str]:
    return frozenset(hold.result.device for hold in view.holds if hold.result.pool == pool)


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _published(view: GpuView) -> list[PublishedDevice]:
    """Without devices of another GPU, whatever an agent says."""
    return [one for one in view.status.published if names.slot_of_device(one.device) == view.status.slot]


def _close_approved(gpu: GpuView, fence: Fence, closing_until: float) -> tuple[PublishedDevice, ...]:
    """Nobody holds them, and nobody can get them any more: the closing guard refuses it, or a decision of the scheduler
    that was on its way is among the allocated by now."""
    pool = gpu.status.pool
    closed = [
        published
        for published in gpu.status.published
        if published.closing_since is not None
        and (
            seconds(published.closing_since) <= closing_until
            or (pool is not None and is_closed(fence, pool, published.device))
        )
    ]
    held = {hold.result.device for hold in gpu.holds} if closed else ()
    return tuple([published for published in closed if published.device not in held])
