"""The search for devices on one node: the first solution in the scheduler's own order, by its own rules."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Final, NamedTuple

from gpusharing.api.dra import Toleration
from gpusharing.core.allocate.constraints import Constraining, constraining
from gpusharing.core.allocate.inventory import NodePools, Pool
from gpusharing.core.allocate.published import Device, Taint
from gpusharing.core.allocate.requests import Claim, Wanted
from gpusharing.core.allocate.room import Demand, RequestError, Room
from gpusharing.core.allocate.selecting import Selection, SelectorError, Selectors
from gpusharing.core.allocate.taken import CounterName, Taken

MOST_DEVICES: Final = 32
"""Of one claim."""
LAST_WITHOUT_STATIC_ROOM: Final = 36
"""The last minor version of Kubernetes in which a request for all devices leaves out those that are full."""
FIRST_THAT_KNOWS_EMPTY_SHARES: Final = 37
"""The first minor version of Kubernetes that charges counters once for a device whose shares have no capacity."""

_MOST_TRIES: Final = 30_000
_MOST_TRIES_ON_A_NODE: Final = 10_000
"""Devices that are tried. The scheduler has ten seconds for a node; hardly any search takes more than a hundred."""


class StopError(Exception):
    """Kubernetes stops the whole pod, whatever other nodes have."""

    def __init__(self, claim: Claim, request: str, why: "str | SelectorError") -> None:
        super().__init__(f"claim {claim.display_name}, request {request}: {why}")
        self.claim = claim
        self.request = request
        self.why = why


class GaveUpError(Exception):
    """There are too many combinations to try."""


_SUSPICIOUS: Final = 200
"""After so many tries it is worth looking whether one of the requests cannot be satisfied at all."""
_MOST_TRIES_ALONE: Final = 1_000


class _HopelessError(Exception):
    """No combination is left that could do."""


class Budget:
    """How much may be tried for one pod."""

    def __init__(self, most: int = _MOST_TRIES) -> None:
        self._left = most
        self._least = 0

    def begin_node(self) -> None:
        self._least = self._left - _MOST_TRIES_ON_A_NODE

    def spend(self) -> None:
        """Raises GaveUpError."""
        self._left -= 1
        if self._left < max(0, self._least):
            raise GaveUpError


class Chosen(NamedTuple):
    """One device for a request."""

    wanted: Wanted
    device: Device
    amounts: Mapping[str, int] | None
    """What it takes of a shared device; None of one that is not shared."""


class _Outcome(Enum):
    DONE = auto()
    FAILED = auto()
    TOO_MANY = auto()
    """More than a claim can have: other devices do not help, but alternatives may."""


class Question:
    """What a request asks of any node, prepared once."""

    def __init__(self, wanted: Wanted, of_class: Sequence[str], selectors: Selectors, minor: int) -> None:
        self.wanted = wanted
        self.minor = minor
        self.selection = Selection(wanted, of_class, selectors)
        self._demands: dict[Room, Demand] = {}

    def demand(self, room: Room) -> Demand:
        """Raises RequestError."""
        known = self._demands.get(room)
        if known is None:
            known = self._demands[room] = room.demand(self.wanted.capacity, self.minor)
        return known


class AskedClaim(NamedTuple):
    claim: Claim
    requests: tuple[tuple[Question, ...], ...]
    """The alternatives of each request."""


class _OnNode(NamedTuple):
    """A request on one node."""

    question: Question
    needed: int
    everything: tuple[Device, ...] = ()
    """If it asks for all devices: which those are."""


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    return any(
        toleration.effect in {"", taint.effect}
        and toleration.key in {"", taint.key}
        and (
            toleration.operator == "Exists"
            or (toleration.operator in {"", "Equal"} and toleration.value == taint.value)
        )
        for toleration in tolerations
    )


class Search:
    """On one node. Raises StopError and GaveUpError."""

    def __init__(
        self, pools: NodePools, asked: Sequence[AskedClaim], taken: Taken, *, minor: int, budget: Budget
    ) -> None:
        self._pools = pools
        self._asked = asked
        self._taken = taken
        self._minor = minor
        self._budget = budget
        self._tries = 0
        self._chosen: list[list[Chosen]] = [[] for _ in asked]
        self._used: dict[Device, set[int]] = {}
        """Devices that are not shared, with the claims (by their number) for which they are chosen."""
        self._shares: dict[Device, list[Mapping[str, int]]] = {}
        self._counters: dict[Pool, dict[CounterName, int]] = {}
        self._charged: list[bool] = []
        """Whether each chosen device was charged counters, in the order in which they were chosen."""
        self._constraints: list[list[Constraining]] = []
        self._requests: list[list[tuple[_OnNode, ...]]] = []

    def run(self) -> list[list[Chosen]] | None:
        """The devices of each claim, or None: they cannot all be allocated."""
        self._budget.begin_node()
        for one in self._asked:
            self._requests.append([tuple(self._prepare(one.claim, each) for each in some) for some in one.requests])
            self._check_count(one.claim, self._requests[-1])
            self._constraints.append([constraining(each, self._minor) for each in one.claim.constraints])
        try:
            outcome = self._next_request(0, 0)
        except _HopelessError:
            return None
        if outcome is _Outcome.TOO_MANY:
            raise StopError(self._asked[0].claim, "", f"more than {MOST_DEVICES} devices")
        return self._chosen if outcome is _Outcome.DONE else None

    def _prepare(self, claim: Claim, question: Question) -> _OnNode:
        wanted = question.wanted
        if not wanted.everything:
            return _OnNode(question, wanted.count)
        for pool in self._pools.incomplete:
            raise StopError(claim, wanted.name, f"asks for all devices, but pool {'/'.join(pool)} is being updated")
        for pool in self._pools.invalid:
            raise StopError(claim, wanted.name, f"asks for all devices, but pool {'/'.join(pool)} is invalid")
        found = tuple(
            device
            for device in self._pools.devices
            if self._is_selected(claim, question, device) and self._has_room_for_all(claim, question, device)
        )
        return _OnNode(question, len(found), found)

    def _check_count(self, claim: Claim, requests: Sequence[Sequence[_OnNode]]) -> None:
        total = sum(min(one.needed for one in alternatives) for alternatives in requests)
        if total > MOST_DEVICES:
            raise StopError(claim, "", f"{total} devices are more than the {MOST_DEVICES} that a claim can have")

    def _has_room_for_all(self, claim: Claim, question: Question, device: Device) -> bool:
        if self._minor <= LAST_WITHOUT_STATIC_ROOM:
            return self._has_room(claim, question, device)
        return self._demand(claim, question, device).can_ever_fit

    # ------------------------------------------------------------------------------------------------- the search

    def _next_request(self, number: int, request: int) -> _Outcome:
        if number == len(self._asked):
            return _Outcome.DONE
        requests = self._requests[number]
        if request == len(requests):
            outcome = self._next_request(number + 1, 0)
            return _Outcome.FAILED if outcome is _Outcome.TOO_MANY else outcome
        if not self._asked[number].claim.requests[request].is_list:
            return self._devices(number, request, requests[request][0], 0, 0)
        are_all_too_many = True
        for alternative in requests[request]:
            outcome = self._devices(number, request, alternative, 0, 0)
            if outcome is _Outcome.DONE:
                return outcome
            are_all_too_many = are_all_too_many and outcome is _Outcome.TOO_MANY
        return _Outcome.TOO_MANY if are_all_too_many else _Outcome.FAILED

    def _devices(self, number: int, request: int, asked: _OnNode, index: int, start: int) -> _Outcome:
        """From the `index`-th device of the request on; the order of its devices makes no difference."""
        takes_all = asked.question.wanted.everything
        if takes_all and not asked.everything:
            return _Outcome.FAILED
        if index >= asked.needed:
            return self._next_request(number, request + 1)
        if asked.needed - index > MOST_DEVICES - len(self._chosen[number]):
            return _Outcome.TOO_MANY
        if takes_all:
            return self._next_of_all(number, request, asked, index)
        return self._next_of_some(number, request, asked, index, start)

    def _next_of_some(self, number: int, request: int, asked: _OnNode, index: int, start: int) -> _Outcome:
        claim, question = self._asked[number].claim, asked.question
        devices = self._pools.devices
        for position in range(start, len(devices)):
            device = devices[position]
            if self._is_in_use(number, question.wanted, device):
                continue
            if not self._is_selected(claim, question, device) or not self._has_room(claim, question, device):
                continue
            if not self._choose(number, question, device):
                continue
            outcome = self._devices(number, request, asked, index + 1, position + 1)
            if outcome is _Outcome.DONE:
                return outcome
            self._give_back(number)
            if outcome is _Outcome.TOO_MANY:
                return outcome
            # Kubernetes tries all combinations of too few devices. By now their selectors have all been asked.
            missing = asked.needed - index
            if missing > 1 and not self._are_there(number, question, devices[position + 1 :], missing):
                return outcome
        return _Outcome.FAILED

    def _are_there(self, number: int, question: Question, devices: Sequence[Device], needed: int) -> bool:
        """Whether so many of them may be had, looked at one by one and by each constraint alone."""
        claim, wanted = self._asked[number].claim, question.wanted
        found = [
            device
            for device in devices
            if not self._is_in_use(number, wanted, device)
            and self._is_selected(claim, question, device)
            and self._has_room(claim, question, device)
            and all(tolerates(wanted.tolerations, taint) for taint in device.taints)
        ]
        return len(found) >= needed and all(
            constraint.most(found) >= needed
            for constraint in self._constraints[number]
            if constraint.constraint.concerns(wanted)
        )

    def _next_of_all(self, number: int, request: int, asked: _OnNode, index: int) -> _Outcome:
        device, question = asked.everything[index], asked.question
        if self._is_in_use(number, question.wanted, device) or not self._choose(number, question, device):
            return _Outcome.FAILED
        outcome = self._devices(number, request, asked, index + 1, 0)
        if outcome is not _Outcome.DONE:
            self._give_back(number)
        return outcome

    def _is_in_use(self, number: int, wanted: Wanted, device: Device) -> bool:
        users = self._used.get(device)
        if wanted.admin:
            return users is not None and number in users
        return bool(users) or device.id in self._taken.exclusively

    def _is_selected(self, claim: Claim, question: Question, device: Device) -> bool:
        answer = question.selection.answer(device)
        if not answer.matches:
            if answer.error is not None:
                raise StopError(claim, question.wanted.name, answer.error)
            return False
        return device not in self._pools.elsewhere

    def _demand(self, claim: Claim, question: Question, device: Device) -> Demand:
        try:
            return question.demand(device.room)
        except RequestError as error:
            raise StopError(claim, question.wanted.name, f"device {'/'.join(device.id)}: {error}") from None

    def _has_room(self, claim: Claim, question: Question, device: Device) -> bool:
        demand = self._demand(claim, question, device)
        if not demand.can_ever_fit:
            return False
        taken, shares = self._taken.amounts.get(device.id), self._shares.get(device)
        if taken is None and not shares:
            return True
        for name, amount in demand.amounts.items():
            total = amount + (taken.get(name, 0) if taken else 0)
            if shares:
                total += sum(share[name] for share in shares)
            if total > device.room.values[name]:
                return False
        return True

    def _choose(self, number: int, question: Question, device: Device) -> bool:
        """Takes the device, if nothing else is against it."""
        wanted = question.wanted
        is_charged = bool(device.consumes) and not (device.is_shared and self._is_shared_already(device))
        if is_charged and not self._charge(device):
            return False
        if device.taints and not all(tolerates(wanted.tolerations, taint) for taint in device.taints):
            self._discharge(device, is_charged=is_charged)
            return False
        if not self._constrain(number, question, device):
            self._discharge(device, is_charged=is_charged)
            return False
        claim = self._asked[number].claim
        if wanted.everything and not self._has_room(claim, question, device):
            for constraint in self._constraints[number]:
                constraint.remove(wanted)
            self._discharge(device, is_charged=is_charged)
            return False
        self._budget.spend()
        self._tries += 1
        if self._tries == _SUSPICIOUS and self._is_hopeless():
            raise _HopelessError
        amounts = None
        if device.is_shared:
            amounts = self._demand(claim, question, device).amounts
            self._shares.setdefault(device, []).append(amounts)
        else:
            self._used.setdefault(device, set()).add(number)
        self._chosen[number].append(Chosen(wanted, device, amounts))
        self._charged.append(is_charged)
        return True

    def _constrain(self, number: int, question: Question, device: Device) -> bool:
        constraints = self._constraints[number]
        for position, constraint in enumerate(constraints):
            if not constraint.add(question.wanted, device):
                for before in constraints[:position]:
                    before.remove(question.wanted)
                if question.wanted.everything:
                    where = "/".join(device.id)
                    text = f"asks for all devices, but a constraint would not be satisfied by {where}"
                    raise StopError(self._asked[number].claim, question.wanted.name, text)
                return False
        return True

    def _give_back(self, number: int) -> None:
        """The device that was chosen last."""
        wanted, device, amounts = self._chosen[number].pop()
        if amounts is None:
            self._used[device].discard(number)
        else:
            shares = self._shares[device]
            shares.pop()
            if not shares:
                del self._shares[device]
        for constraint in self._constraints[number]:
            constraint.remove(wanted)
        self._discharge(device, is_charged=self._charged.pop())

    # --------------------------------------------------------------------------------------------------- no hope

    def _is_hopeless(self) -> bool:
        """Whether one of the requests could not even be satisfied alone. Kubernetes tries all combinations of the
        others with it, to the same end, unless it stops on the way: then nothing is said here."""
        alone = [
            AskedClaim(replace(one.claim, requests=(request,)), (alternatives,))
            for one in self._asked
            for request, alternatives in zip(one.claim.requests, one.requests, strict=True)
        ]
        return len(alone) > 1 and not self._may_stop() and any(map(self._is_impossible, alone))

    def _may_stop(self) -> bool:
        questions = [question for one in self._asked for some in one.requests for question in some]
        if any(question.wanted.everything for question in questions):
            return True
        try:
            for question in questions:
                for device in self._pools.devices:
                    self._is_selected(self._asked[0].claim, question, device)
                    self._demand(self._asked[0].claim, question, device)
        except StopError:
            return True
        return False

    def _is_impossible(self, alone: AskedClaim) -> bool:
        budget = Budget(_MOST_TRIES_ALONE)
        try:
            return Search(self._pools, [alone], self._taken, minor=self._minor, budget=budget).run() is None
        except GaveUpError:
            return False

    # -------------------------------------------------------------------------------------------------- counters

    def _is_shared_already(self, device: Device) -> bool:
        """Then its counters are charged already."""
        if device in self._shares or device.id in self._taken.amounts:
            return True
        return self._minor >= FIRST_THAT_KNOWS_EMPTY_SHARES and device.id in self._taken.shares

    def _charge(self, device: Device) -> bool:
        pool = self._pools.pools[device.pool]
        used, is_overdrawn = self._taken.counters(pool)
        if is_overdrawn:
            return False
        charged = self._counters.setdefault(pool, {})
        self._add(charged, device, 1)
        for counter_set, amounts in device.consumes:
            supply = pool.counters[counter_set]
            for name in amounts:
                if charged[counter_set, name] + used.get((counter_set, name), 0) > supply[name]:
                    self._add(charged, device, -1)
                    return False
        return True

    def _discharge(self, device: Device, *, is_charged: bool) -> None:
        if is_charged:
            self._add(self._counters[self._pools.pools[device.pool]], device, -1)

    def _add(self, charged: dict[CounterName, int], device: Device, sign: int) -> None:
        for counter_set, amounts in device.consumes:
            for name, amount in amounts.items():
                charged[counter_set, name] = charged.get((counter_set, name), 0) + sign * amount
