"""MIG instances that would have room on a GPU, if its other instances were elsewhere on it."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from gpusharing.api.names import Sharing, sharing_of_device
from gpusharing.core.allocate.inventory import Pool
from gpusharing.core.allocate.published import Consumption, Device
from gpusharing.core.allocate.reasons import Reasons, Step
from gpusharing.core.allocate.requests import Wanted, expressions
from gpusharing.core.allocate.selecting import Selection
from gpusharing.core.text import SHOWN
from gpusharing.explaining import wording
from gpusharing.explaining.asking import Asking
from gpusharing.findings import waiting
from gpusharing.findings.finding import Finding, Reference

_SLICE: Final = re.compile(r"memory-slice-\d+")


class _Gpu(NamedTuple):
    place: str
    free: int
    """Memory slices."""
    users: Sequence[Device]


def finding(one: Reasons, wanted: Wanted, asking: Asking, about: Reference, now: str) -> Finding | None:
    """None: no GPU is fragmented, as far as the request is concerned."""
    if not one.fell_out[Step.COUNTERS]:
        return None
    of_class = asking.cluster.classes[wanted.device_class].spec.selectors
    selection = Selection(wanted, expressions(of_class, of="class"), asking.cluster.selectors)
    for group in asking.groups:
        pools = asking.cluster.inventory.node(group.representative)
        for device in pools.devices:
            if sharing_of_device(device.id[2]) is not Sharing.MIG or asking.cluster.taken.is_taken(device):
                continue
            profile = _profile(device)
            if not profile or not selection.answer(device).matches:
                continue
            gpu = _gpu(device, pools.pools[device.pool], asking)
            if gpu and gpu.users and gpu.free >= _slices(device.consumes):
                keys = list(dict.fromkeys(key for user in gpu.users for key in asking.cluster.taken.holders(user)))
                holders = wording.holders(asking.examples(keys, group, most=SHOWN), len(keys), now)
                place = f"{group.representative.metadata.name}/{gpu.place}"
                return waiting.FRAGMENTED.found(about, place=place, free=gpu.free, profile=profile, holders=holders)
    return None


def _profile(device: Device) -> str:
    value = device.attribute(f"{device.id[0]}/profile")[1]
    return str(value[1]) if value else ""


def _slices(consumes: Sequence[Consumption]) -> int:
    return sum(amount // 10**9 for each in consumes for name, amount in each.counters.items() if _SLICE.fullmatch(name))


def _gpu(device: Device, pool: Pool, asking: Asking) -> _Gpu | None:
    if not device.consumes:
        return None
    counter_set = device.consumes[0].counter_set
    used, _ = asking.cluster.taken.counters(pool)
    free = sum(
        (amount - used.get((counter_set, name), 0)) // 10**9
        for name, amount in pool.counters[counter_set].items()
        if _SLICE.fullmatch(name)
    )
    users = [
        other
        for other in (*pool.devices, *pool.others)
        if asking.cluster.taken.is_taken(other)
        and any(each.counter_set == counter_set for each in other.consumes)
        and sharing_of_device(other.id[2]) is Sharing.MIG
    ]
    return _Gpu(counter_set.removesuffix("-counter-set"), free, users)
