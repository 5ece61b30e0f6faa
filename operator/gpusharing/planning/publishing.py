"""What a node would publish when the change is done, as its agent decides it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.entries import Entry
from gpusharing.core.publishing.menu import menu
from gpusharing.core.publishing.narrowing import GpuView as Narrowed
from gpusharing.core.publishing.narrowing import Holder, Publication, narrow
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs
from gpusharing.core.state.node_view import GpuView, Hold
from gpusharing.planning import gpus

Unhealthy = Mapping[str, str]
"""By device, the reason of its taint."""

_MUCH_LATER: Final = 1e9
"""Seconds: all waiting is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A GPU when its change is done."""

    view: GpuView
    entry: GpuSharing
    staying: tuple[Hold, ...]
    """Who still holds it."""

    @property
    def is_leaving(self) -> bool:
        """Whether somebody keeps it where it does not belong any more."""
        return any(hold.result.pool != self.pool for hold in self.staying)

    @property
    def pool(self) -> str:
        return names.pool(self.view.node, restricted_to=self.entry.restricted_to)


def published(settled: Sequence[Settled], unhealthy: Unhealthy, *, full_menus: int) -> Iterator[dict[str, Any]]:
    """The specs of the slices of a node."""
    offers = [offered_gpu(one, unhealthy) for one in settled]
    views = [_narrowed(one, offered) for one, offered in zip(settled, offers, strict=True)]
    plans = narrow(views, now=_MUCH_LATER, menus=full_menus)
    by_pool: defaultdict[str, list[PublishedGpu]] = defaultdict(list)
    for offered, plan in zip(offers, plans, strict=True):
        by_pool[plan.publication.pool].append(PublishedGpu(offered, plan.publication.entries))
    node = settled[0].view.node if settled else ""
    for pool, found in sorted(by_pool.items()):
        yield from slice_specs(found, node=node, pool=pool, driver=names.DRIVER, generation=1)


def devices(specs: Sequence[Mapping[str, Any]]) -> set[str]:
    return {device["name"] for spec in specs for device in spec.get("devices") or ()}


def unhealthy(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Devices of a slice that nobody may have, with the reason."""
    for device in spec.get("devices") or ():
        for taint in device.get("taints") or ():
            if taint.get("key") == names.UNHEALTHY_TAINT:
                yield device["name"], taint.get("value") or ""


def offered_gpu(one: Settled, unhealthy: Unhealthy) -> OfferedGpu:
    """With what the agent would have set on it."""
    found = [names.read_device(hold.result.device) for hold in one.view.holds]
    held = [name.place for name in found if name and name.place]
    return gpus.offered(one.view.status, one.entry, one.view.models, held=held, unhealthy=unhealthy)


def _narrowed(one: Settled, offered: OfferedGpu) -> Narrowed:
    policy = one.entry.policy.name if one.entry.policy else None
    pool = one.staying[0].result.pool if one.is_leaving else one.pool
    held = [hold for hold in one.staying if hold.slot == one.view.status.slot]
    return Narrowed(
        gpu=offered.gpu,
        group=f"{policy or ''}/{offered.gpu.product_name}",
        menu=menu(offered),
        policy=policy,
        pool=one.pool,
        configured=True,
        # Nothing else is there any more but what somebody has.
        published=Publication(
            pool=pool,
            entries=tuple(
                Entry(device=device, policy=policy) for device in sorted({hold.result.device for hold in held})
            ),
            complete=True,
        ),
        prepared=tuple(Holder(hold.uid, hold.result.device, hold.result.share_id) for hold in held),
        allocated=frozenset(hold.result.device for hold in held),
    )
