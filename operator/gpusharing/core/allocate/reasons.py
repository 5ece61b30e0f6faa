"""Why the devices of a node do not do for a request: each device falls out at the first step that it does not pass."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gpusharing.api import names
from gpusharing.api.meta import Key
from gpusharing.core.allocate.inventory import NodePools
from gpusharing.core.allocate.published import Device
from gpusharing.core.allocate.requests import Claim, Constraint
from gpusharing.core.allocate.room import RequestError
from gpusharing.core.allocate.search import AskedClaim, Question, tolerates
from gpusharing.core.allocate.selecting import Origin, SelectorError
from gpusharing.core.allocate.taken import Taken

_MARKS: Final = frozenset({names.CLOSING, names.DRAINING})
_MOST_ERRORS: Final = 3
"""Of one request on one node. They are mostly the same."""


class Step(StrEnum):
    """In the order in which a device takes them."""

    CLASS_SELECTOR = "ClassSelector"
    REQUEST_SELECTOR = "RequestSelector"
    RESERVED = "Reserved"
    """Its class excludes what policies reserve for their tenants."""
    CLOSING = "Closing"
    """Our agent withdraws it, or its mode is no longer offered."""
    TAINT = "Taint"
    UNKNOWN_CAPACITY = "UnknownCapacity"
    """The request names a capacity that the device does not have."""
    CAPACITY = "Capacity"
    """The device never gives so much, or such an amount, to one request."""
    IN_USE = "InUse"
    CAPACITY_TAKEN = "CapacityTaken"
    """Others have too much of it."""
    COUNTERS = "Counters"
    """Others have what it is made of, such as another device of the same GPU."""
    CONSTRAINT = "Constraint"
    """It does not have the attribute of a constraint."""
    GUARD = "Guard"
    """The scheduler would take it, and the allocation guard would refuse that: it is reserved for other namespaces."""


_SELECTING: Final = (Step.CLASS_SELECTOR, Step.REQUEST_SELECTOR, Step.RESERVED)


@dataclass(slots=True, kw_only=True)
class Reasons:
    """Of one request, or one alternative, on one node or on several."""

    claim: Key
    request: str
    needed: int
    """Devices; 0: all that match."""
    looked_at: int = 0
    fell_out: Counter[Step] = field(default_factory=Counter)
    left: int = 0
    """Devices that would do if this were the only request."""
    holders: Counter[Key] = field(default_factory=Counter)
    """Claims that have devices, or parts of them, that the request could have otherwise."""
    reserved: Counter[str] = field(default_factory=Counter)
    """By policy: GPUs whose devices fell out because they are reserved."""
    taints: Counter[str] = field(default_factory=Counter)
    most: dict[str, int] = field(default_factory=dict)
    """By capacity of which a device has too little: the most that one of them has left, in billionths."""
    errors: tuple[SelectorError, ...] = ()
    """Selectors without an answer. The scheduler stops the pod when it comes to such a device."""

    @property
    def is_enough(self) -> bool:
        """Then the pod does not fit because its requests compete for devices, or for what a constraint makes of them
        together."""
        if self.needed:
            return self.left >= self.needed
        return self.left == self.looked_at - self.unmatched > 0

    @property
    def unmatched(self) -> int:
        """Devices that are not selected."""
        return sum(self.fell_out[step] for step in _SELECTING)

    def add(self, other: "Reasons") -> None:
        """The same request on one more node."""
        self.looked_at += other.looked_at
        self.fell_out += other.fell_out
        self.left += other.left
        self.holders += other.holders
        self.reserved += other.reserved
        self.taints += other.taints
        self.errors = (self.errors + other.errors)[:_MOST_ERRORS]
        for name, amount in other.most.items():
            self.most[name] = max(amount, self.most.get(name, 0))


def total(reasons: Iterable[Sequence[Reasons]]) -> list[Reasons]:
    """Of the same requests on several nodes."""
    sums: list[Reasons] = []
    for of_node in reasons:
        if not sums:
            sums = [Reasons(claim=one.claim, request=one.request, needed=one.needed) for one in of_node]
        for one, other in zip(sums, of_node, strict=True):
            one.add(other)
    return sums


def reasons(
    pools: NodePools, asked: Sequence[AskedClaim], taken: Taken, *, denied: Collection[str] = ()
) -> tuple[Reasons, ...]:
    """Of each alternative of each request. `denied`: policies of whose tenants the pod's namespace is none."""
    return tuple(
        _Examination(one.claim, question, pools, taken, denied).run()
        for one in asked
        for alternatives in one.requests
        for question in alternatives
    )


class _Examination:
    def __init__(
        self, claim: Claim, question: Question, pools: NodePools, taken: Taken, denied: Collection[str]
    ) -> None:
        wanted = question.wanted
        self._question = question
        self._wanted = wanted
        self._pools = pools
        self._taken = taken
        self._denied = denied
        self._reserved: set[tuple[str, int | None]] = set()
        """GPUs, by policy and slot."""
        self._constraints: Sequence[Constraint] = [one for one in claim.constraints if one.concerns(wanted)]
        self._reasons = Reasons(
            claim=(claim.namespace, claim.name),
            request=wanted.name,
            needed=0 if wanted.everything else wanted.count,
        )

    def run(self) -> Reasons:
        found = self._reasons
        for device in self._pools.devices:
            if device in self._pools.elsewhere:
                continue
            found.looked_at += 1
            step = self._first_failed(device)
            if step is None:
                found.left += 1
            else:
                found.fell_out[step] += 1
        found.reserved.update(policy for policy, _ in self._reserved)
        return found

    def _first_failed(self, device: Device) -> Step | None:
        return self._selected(device) or self._untainted(device) or self._free(device) or self._allowed(device)

    def _selected(self, device: Device) -> Step | None:
        selection = self._question.selection
        answer = selection.answer(device)
        if answer.matches:
            return None
        if answer.error is not None and len(self._reasons.errors) < _MOST_ERRORS:
            self._reasons.errors += (answer.error,)
        if answer.origin is Origin.REQUEST:
            return Step.REQUEST_SELECTOR
        if selection.is_kept_by_closing(device):
            return Step.CLOSING
        return self._reserved_step(device) or Step.CLASS_SELECTOR

    def _reserved_step(self, device: Device) -> Step | None:
        """Of a device that the class does not match."""
        if device.reserved_by is None:
            return None
        unreserved = self._question.selection.unreserved(device)
        if unreserved.matches:
            self._reserved.add((device.reserved_by, names.slot_of_device(device.id[2])))
            return Step.RESERVED
        return Step.REQUEST_SELECTOR if unreserved.origin is Origin.REQUEST else None

    def _untainted(self, device: Device) -> Step | None:
        for taint in device.taints:
            if not tolerates(self._wanted.tolerations, taint):
                if taint.key in _MARKS:
                    return Step.CLOSING
                self._reasons.taints[taint.key] += 1
                return Step.TAINT
        return None

    def _free(self, device: Device) -> Step | None:
        try:
            demand = self._question.demand(device.room)
        except RequestError:
            return Step.CAPACITY
        if demand.unknown is not None:
            return Step.UNKNOWN_CAPACITY
        if demand.too_much is not None:
            self._note_most(demand.too_much, device.room.most(demand.too_much))
            return Step.CAPACITY
        if not self._wanted.admin and device.id in self._taken.exclusively:
            self._note_holders([device])
            return Step.IN_USE
        taken: Mapping[str, int] = self._taken.amounts.get(device.id, {})
        for name, amount in demand.amounts.items():
            left = device.room.values[name] - taken.get(name, 0)
            if amount > left:
                self._note_most(name, left)
                self._note_holders([device])
                return Step.CAPACITY_TAKEN
        if not self._lacks_counters(device):
            return None
        # For admin access, too, Kubernetes counts what the device consumes, and so a second time.
        return Step.IN_USE if device.id in self._taken.exclusively else Step.COUNTERS

    def _lacks_counters(self, device: Device) -> bool:
        if not device.consumes or (device.is_shared and self._taken.is_taken(device)):
            return False
        pool = self._pools.pools[device.pool]
        used, is_overdrawn = self._taken.counters(pool)
        lacking = {
            counter_set
            for counter_set, amounts in device.consumes
            for name, amount in amounts.items()
            if amount + used.get((counter_set, name), 0) > pool.counters[counter_set][name]
        }
        if lacking:
            self._note_holders(
                other
                for other in (*pool.devices, *pool.others)
                if self._taken.is_taken(other) and any(one.counter_set in lacking for one in other.consumes)
            )
        return bool(lacking) or is_overdrawn

    def _allowed(self, device: Device) -> Step | None:
        if any(not device.attribute(one.attribute)[0] for one in self._constraints):
            return Step.CONSTRAINT
        return Step.GUARD if device.reserved_by in self._denied else None

    def _note_most(self, name: str, amount: int) -> None:
        self._reasons.most[name] = max(amount, self._reasons.most.get(name, 0))

    def _note_holders(self, devices: Iterable[Device]) -> None:
        self._reasons.holders.update({claim for device in devices for claim in self._taken.holders(device)})
