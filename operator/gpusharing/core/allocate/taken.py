"""What claims have of devices already."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpusharing.api.dra import AllocationResult, ResourceClaim
from gpusharing.api.meta import Key, key_of
from gpusharing.core.allocate.inventory import Pool
from gpusharing.core.allocate.published import Device, DeviceId, PoolId
from gpusharing.core.quantities import billionths

CounterName = tuple[str, str]
"""Counter set and counter."""


class Share(NamedTuple):
    claim: Key
    amounts: Mapping[str, int]


class Counters(NamedTuple):
    """Of a pool, what devices use that are taken."""

    used: Mapping[CounterName, int]
    is_overdrawn: bool
    """Then nothing that consumes counters is allocated from the pool, whichever counters it consumes."""


class Taken:
    """What is allocated, by device. Admins only look: what they have is not counted."""

    def __init__(self, claims: Iterable[ResourceClaim] = ()) -> None:
        self.exclusively: dict[DeviceId, Key] = {}
        self.shares: dict[DeviceId, list[Share]] = {}
        self.amounts: dict[DeviceId, dict[str, int]] = {}
        """What all shares of a device take together. Shares of devices without capacities take nothing."""
        self._results: dict[Key, Sequence[AllocationResult]] = {}
        self._counters: defaultdict[PoolId, dict[Pool, Counters]] = defaultdict(dict)
        for claim in claims:
            if claim.status.allocation is not None:
                self.add(key_of(claim), claim.status.allocation.devices.results)

    def copy(self) -> "Taken":
        copied = Taken()
        for claim, results in self._results.items():
            copied.add(claim, results)
        return copied

    def add(self, claim: Key, results: Sequence[AllocationResult]) -> None:
        """What a claim has, in place of what it had."""
        self.remove(claim)
        self._results[claim] = results
        for result in results:
            device = (result.driver, result.pool, result.device)
            self._counters.pop(device[:2], None)
            if result.admin_access:
                continue
            if result.share_id is None:
                self.exclusively[device] = claim
                continue
            amounts = {name: billionths(amount) for name, amount in result.consumed_capacity.items()}
            self.shares.setdefault(device, []).append(Share(claim, amounts))
            if amounts:
                total = self.amounts.setdefault(device, {})
                for name, amount in amounts.items():
                    total[name] = total.get(name, 0) + amount

    def remove(self, claim: Key) -> None:
        """It has lost its allocation."""
        for device in {(result.driver, result.pool, result.device) for result in self._results.pop(claim, ())}:
            self._counters.pop(device[:2], None)
            if self.exclusively.get(device) == claim:
                del self.exclusively[device]
            left = [share for share in self.shares.pop(device, ()) if share.claim != claim]
            self.amounts.pop(device, None)
            for share in left:
                self.shares.setdefault(device, []).append(share)
                if share.amounts:
                    total = self.amounts.setdefault(device, {})
                    for name, amount in share.amounts.items():
                        total[name] = total.get(name, 0) + amount

    def is_taken(self, device: Device) -> bool:
        """Whether anybody has it, or some of it."""
        return device.id in self.exclusively or device.id in self.shares

    def holders(self, device: Device) -> list[Key]:
        if device.id in self.exclusively:
            return [self.exclusively[device.id]]
        return list(dict.fromkeys(share.claim for share in self.shares.get(device.id, ())))

    def counters(self, pool: Pool) -> Counters:
        known = self._counters[pool.id].get(pool)
        if known is None:
            known = self._counters[pool.id][pool] = self._count(pool)
        return known

    def _count(self, pool: Pool) -> Counters:
        used: dict[CounterName, int] = {}
        for device in (*pool.devices, *pool.others):
            if device.consumes and self.is_taken(device):
                for counter_set, amounts in device.consumes:
                    for name, amount in amounts.items():
                        used[counter_set, name] = used.get((counter_set, name), 0) + amount
        return Counters(used, any(amount > pool.counters[of][name] for (of, name), amount in used.items()))
