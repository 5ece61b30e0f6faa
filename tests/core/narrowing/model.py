"""One GPU, its claims, scheduler, API, kubelet and agent: every order of events, breadth first.

Who it is for may change as well, and with that the pool that it is in. A device is told with its pool: n1/gpu-0.

The agent is the real function. The scheduler knows allocations at once and slices late (reference: narrowing.md), pods
are deleted by force at any moment, writes fail or succeed without an answer, the kubelet wipes slices, the agent loses
its disk. Only time is abstract: the agent may find a wait over whenever the environment allows that it is.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Final, NamedTuple

from core.narrowing.agents import NOW, TIMING, Agent
from core.narrowing.operators import Guard, Operator, Records, Report, Spec, refuses
from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.core.devices.counters import fit, supply
from gpusharing.core.devices.gpu import Gpu
from gpusharing.core.devices.offered import AS_FOUND, OfferedGpu
from gpusharing.core.devices.options import Option, of_device
from gpusharing.core.publishing.entries import Entry, Standing
from gpusharing.core.publishing.menu import Menu, menu
from gpusharing.core.publishing.narrowing import GpuView, Holder, Publication

POLICY: Final = "p"
NODE: Final = "n1"

NEW, ON_ITS_WAY, UNANSWERED, ALLOCATED, GONE = range(5)
_HELD: Final = frozenset({UNANSWERED, ALLOCATED})
"""The API has it, whether or not the scheduler has heard that."""


class Claim(NamedTuple):
    phase: int = NEW
    device: str | None = None
    alive: bool = True
    """Its pod is."""
    prepared: str | None = None
    """The device that the node prepared for it, whatever has become of the claim."""


class Noted(NamedTuple):
    """An entry on the agent's disk, with times as what they come to."""

    device: str
    closing: bool = False
    in_api: bool = False
    """The API has had the mark, and had it ever since."""
    number: int = 0
    """Of the closings that the API has had, which this is."""


class Disk(NamedTuple):
    """What the agent knows of what it publishes."""

    pool: str
    entries: tuple[Noted, ...]
    vacated: bool = False
    complete: bool = True
    withheld: bool = False


Slices = tuple[tuple[str, tuple[tuple[str, bool], ...]], ...]
"""By pool: devices, and whether they are closing. A slice that is not there has no place here."""


class Fenced(NamedTuple):
    """What stands around the closing guard."""

    written: Records | None = ()
    """In the guard as it is stored; None: somebody has deleted it."""
    servers: tuple[Records | None, ...] = ((), ())
    """As each API server goes by it."""
    report: Report | None = None
    """What the operator has heard of the agent last."""
    seen: Records = ()
    """What the operator has seen to hold."""
    known: frozenset[str] | None = None
    """Devices that were held when it read the claims after that."""
    spec: Spec = Spec()
    """In the API, perhaps of long ago."""
    relied_on: bool = False
    """Whether anything was ever approved."""
    writes: int = 0
    """So often the guard was written."""
    closings: int = 0
    """So often something began to close."""


class State(NamedTuple):
    claims: tuple[Claim, ...]
    disk: Disk | None
    api: Slices
    seen: Slices
    """By the scheduler."""
    pending: tuple[Slices, ...]
    """On its way to the scheduler."""
    losses: int
    """So often the disk may still be lost, or the slice be wiped."""
    policy: int = 0
    """Which of the setting's offers are wanted now; before the first of them the operator has not spoken."""
    fenced: Fenced | None = None
    """None: the operator waits until nothing can be on its way any more."""


Step = tuple[str, State]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Who wants what of a GPU that is offered how."""

    offered: OfferedGpu
    later: tuple[OfferedGpu, ...] = ()
    """How it is offered when the policy has changed, at any moment."""
    claims: tuple[str, ...]
    """The device that each wants, or the start of its name and `*`; after `admin:` for one that only looks. Sorted."""
    shares: int = 2
    force: bool = True
    """Whether pods are deleted by force."""
    reused: bool = False
    """Whether a claim outlives its pod and is allocated again."""
    hears: bool = False
    """Whether the agent hears from the operator what is allocated."""
    silent: bool = False
    """Whether the operator speaks only some time after the agent has begun."""
    losses: int = 1
    late: int = 2
    """So many slices may be on their way."""
    writes: int = 0
    """So often the operator may write the closing guard; 0: it does without."""
    servers: int = 2
    """API servers."""
    calm: bool = False
    """Every answer comes, operator and pods live: so that longer stories can be gone through."""
    deleted: bool = False
    """Whether somebody deletes the guard."""
    returns: int = 0
    """So often a device may get another name."""

    def __post_init__(self) -> None:
        if list(self.claims) != sorted(self.claims):
            raise ValueError("claims that want the same can only stand for each other where they are in order")

    @cached_property
    def gpu(self) -> Gpu:
        return self.offered.gpu

    @cached_property
    def menus(self) -> tuple[Menu, ...]:
        return tuple(menu(offered) for offered in (self.offered, *self.later))

    @cached_property
    def pools(self) -> tuple[str, ...]:
        """Where it belongs while it is offered so."""
        return tuple(
            names.pool(NODE, restricted_to=POLICY if offered.restricted else None)
            for offered in (self.offered, *self.later)
        )

    @cached_property
    def as_found(self) -> Menu:
        return menu(replace(self.offered, offers=AS_FOUND, policy=None))

    @cached_property
    def options(self) -> dict[str, Option]:
        return {option.device: option for menu_ in (*self.menus, self.as_found) for option in menu_}

    @cached_property
    def supply(self) -> dict[str, int]:
        return dict(supply(self.gpu))

    def is_admin(self, claim: int) -> bool:
        return self.claims[claim].startswith("admin:")

    @cached_property
    def heard(self) -> tuple[frozenset[str], ...]:
        """What the operator may have said of what is allocated: of now, or of any moment before."""
        claims = [claim for claim in range(len(self.claims)) if self.hears and not self.is_admin(claim)]
        devices = sorted({without_pool(device) for claim in claims for device in self.devices(claim)})
        return tuple(frozenset(some) for size in range(len(devices) + 1) for some in combinations(devices, size))

    def devices(self, claim: int) -> list[str]:
        """In whichever pool: whose claims it is to have is another's concern."""
        prefix = self.claims[claim].removeprefix("admin:")
        return [
            f"{pool}/{names.at_revision(device, revision)}"
            for pool in dict.fromkeys((NODE, *self.pools))
            for device in self.options
            for revision in range(self.returns + 1)
            if device == prefix or (prefix[-1] == "*" and device.startswith(prefix[:-1]))
        ]

    def is_shared(self, device: str) -> bool:
        return names.sharing_of_device(without_pool(device)) in {Sharing.TIME_SLICING, Sharing.MPS}


def pool_of(device: str) -> str:
    return device.rpartition("/")[0]


def without_pool(device: str) -> str:
    return device.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class Weather:
    """What is done in a wrong order, so that the model must find it."""

    asks_one_server: bool = False
    """The guard is taken to hold as soon as one API server says so."""
    reads_claims_first: bool = False
    """Claims are read at any time, also before the guard holds."""
    approvals_last: bool = False
    """What was approved once may be withdrawn whenever it closes."""


@dataclass(frozen=True)
class Clock:
    """What it is time for when the agent looks."""

    patient: bool
    """Whether nothing begins to close yet."""
    waited: Mapping[str, float]
    """For how long the API has had the mark of a closing device."""
    approved: frozenset[str]
    """What the operator lets be withdrawn."""


@dataclass(frozen=True)
class Finding:
    states: int
    way: tuple[str, ...] | None
    """From the beginning to two ways or two pools on one GPU, or to a share too many. None: there is no such way."""
    published: frozenset[frozenset[str]] = frozenset()
    """All sets of devices that were ever in the API."""
    returned: frozenset[str] = frozenset()
    """Devices that could be had in a pool while the guard refused what was withdrawn there before."""


def explore(
    setting: Setting,
    agent: Agent,
    *,
    operator: type[Operator] = Operator,
    weather: Weather = Weather(),
    at_most: int = 2_000_000,
) -> Finding:
    world = _World(setting, agent, operator((setting.offered, *setting.later)), weather)
    claims = tuple(Claim() for _ in setting.claims)
    start = State(
        claims,
        None,
        (),
        (),
        (),
        setting.losses,
        -setting.silent,
        Fenced(servers=((),) * setting.servers) if setting.writes else None,
    )
    came_from: dict[State, Step | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if world.is_wrong(state):
            return Finding(len(came_from), _way(came_from, state))
        for event, next_state in world.steps(state):
            following = world.alike(next_state)
            if following not in came_from:
                came_from[following] = (event, state)
                queue.append(following)
        if len(came_from) > at_most:
            raise AssertionError(f"more than {at_most} states: a smaller setting is needed")
    contents = {state.api for state in came_from if state.api}
    published = frozenset(frozenset(_devices(content)) for content in contents)
    return Finding(len(came_from), None, published, frozenset(_returned(came_from)))


def _returned(states: Iterable[State]) -> Iterator[str]:
    for state in states:
        written = state.fenced.written if state.fenced else None
        over = {pool for pool, one in written or () if one.over_since}
        for pool, devices in state.api if over else ():
            for device, closing in devices:
                if pool in over and not closing and not refuses(written or (), f"{pool}/{device}"):
                    yield f"{pool}/{device}"


def _way(came_from: dict[State, Step | None], state: State) -> tuple[str, ...]:
    events = []
    while step := came_from[state]:
        event, state = step
        events.append(event)
    return tuple(reversed(events))


class _World:
    def __init__(self, setting: Setting, agent: Agent, operator: Operator, weather: Weather) -> None:
        self.setting = setting
        self.agent = agent
        self.operator = operator
        self.weather = weather
        self.guards: dict[tuple[object, ...], Records] = {}
        self.specs: dict[tuple[object, ...], Spec] = {}
        self.rounds: dict[tuple[object, ...], tuple[Disk | None, ...]] = {}
        self.fitting: dict[tuple[str, ...], bool] = {}
        self.moves: dict[tuple[object, ...], tuple[tuple[str, tuple[Claim, ...]], ...]] = {}
        # Many states have the same claims.
        self.in_phase: dict[tuple[tuple[Claim, ...], int], frozenset[str]] = {}
        self.clashing: dict[tuple[tuple[Claim, ...], bool], bool] = {}
        self.in_order: dict[tuple[Claim, ...], tuple[Claim, ...]] = {}

    # ------------------------------------------------------------------------------------------ what must not be

    def is_wrong(self, state: State) -> bool:
        known = state.claims, state.fenced is not None
        if known not in self.clashing:
            # Beside the guard a decision may be on its way to what is used otherwise by now: it is refused.
            held = self._held(state.claims, _HELD if state.fenced else _HELD | {ON_ITS_WAY})
            self.clashing[known] = self._clash(held)
        return self.clashing[known] or sum(bool(devices) for _, devices in state.api) > 1

    def _clash(self, held: list[str]) -> bool:
        if len({pool_of(device) for device in held}) > 1:
            return True
        for device in set(held):
            if held.count(device) > (self.setting.shares if self.setting.is_shared(device) else 1):
                return True
        return not self._fit(held)

    def _held(self, claims: tuple[Claim, ...], phases: AbstractSet[int] = _HELD | {ON_ITS_WAY}) -> list[str]:
        return [
            claim.device
            for index, claim in enumerate(claims)
            if claim.device and claim.phase in phases and not self.setting.is_admin(index)
        ]

    def _fit(self, devices: list[str]) -> bool:
        key = tuple(sorted({without_pool(device) for device in devices}))
        if key not in self.fitting:
            self.fitting[key] = fit((of_device(self.setting.gpu, device).draw for device in key), self.setting.supply)
        return self.fitting[key]

    # ------------------------------------------------------------------------------------------ what can happen

    def alike(self, state: State) -> State:
        """Claims that want the same can stand for each other."""
        claims = state.claims
        if claims not in self.in_order:
            order = sorted(range(len(claims)), key=lambda index: (self.setting.claims[index], _rank(claims[index])))
            self.in_order[claims] = tuple(claims[index] for index in order)
        return state if self.in_order[claims] == claims else state._replace(claims=self.in_order[claims])

    def steps(self, state: State) -> Iterator[Step]:
        for event, claims in self._moves(state):
            yield event, state._replace(claims=claims)
        if state.pending:
            yield "the scheduler sees a slice", state._replace(seen=state.pending[0], pending=state.pending[1:])
        yield from self._writes(state)
        if state.fenced:
            yield from self._guard(state, state.fenced)
        for disk in self._rounds(state):
            if disk != state.disk:
                yield f"agent: {_told(disk)}", state._replace(disk=disk)
        if state.policy + 1 < len(self.setting.menus):
            yield "the policy changes", state._replace(policy=state.policy + 1)
        if state.losses:
            if state.disk is not None:
                yield "the agent loses its disk", state._replace(disk=None, losses=state.losses - 1)
            if state.api and len(state.pending) < self.setting.late:
                wiped = state._replace(api=(), pending=(*state.pending, ()), losses=state.losses - 1)
                yield "the kubelet wipes the slices", wiped

    def _moves(self, state: State) -> tuple[tuple[str, tuple[Claim, ...]], ...]:
        """What may become of the claims, by scheduler and pods. All that these look at is in the key."""
        servers, pool = state.fenced and state.fenced.servers, state.disk and state.disk.pool
        key = state.claims, state.seen, servers, pool
        if key not in self.moves:
            self.moves[key] = tuple(
                (f"{wants} {event}", following.claims)
                for index, wants in enumerate(self.setting.claims)
                for events in (self._scheduler(state, index), () if self.setting.calm else self._pod(state, index))
                for event, following in events
            )
        return self.moves[key]

    def _scheduler(self, state: State, index: int) -> Iterator[Step]:
        claim = state.claims[index]
        # What it has written without an answer, it hears of before it decides again.
        is_known = all(other.phase != UNANSWERED for other in state.claims)
        if claim.phase == NEW and claim.alive and state.seen and is_known:
            for device in self.setting.devices(index):
                if self._can_allocate(state, device, admin=self.setting.is_admin(index)):
                    new = claim._replace(phase=ON_ITS_WAY, device=device)
                    yield f"gets {device}", _with(state, index, new)
        if claim.phase == ON_ITS_WAY:
            if self._is_let_in(state, claim):
                yield "is written", _with(state, index, claim._replace(phase=ALLOCATED))
                if state.fenced and not self.setting.calm:
                    yield "is written, answered 504", _with(state, index, claim._replace(phase=UNANSWERED))
            failed = claim._replace(phase=NEW if claim.alive else GONE, device=None)
            yield "cannot be written", _with(state, index, failed)

        if claim.phase == UNANSWERED:
            yield "is heard of", _with(state, index, claim._replace(phase=ALLOCATED))

    def _is_let_in(self, state: State, claim: Claim) -> bool:
        """By any of the API servers."""
        if state.fenced is None or claim.device is None:
            return True
        return any(server is None or not refuses(server, claim.device) for server in state.fenced.servers)

    def _can_allocate(self, state: State, device: str, *, admin: bool) -> bool:
        """As kube-scheduler 1.37 does, on the slice that it has seen and the allocations that there are."""
        shown = dict(dict(state.seen).get(pool_of(device), ()))
        if shown.get(without_pool(device), True):
            return False
        # Of other pools it knows, but they draw on counters of their own.
        held = [other for other in self._held(state.claims) if pool_of(other) == pool_of(device)]
        if admin:
            return True
        if held.count(device) >= (self.setting.shares if self.setting.is_shared(device) else 1):
            return False
        if device in held or self._fit(list(shown)):
            # A shared device in use is not counted again; and where everything fits there are no counters.
            return True
        return self._fit([*(other for other in held if without_pool(other) in shown), device])

    def _pod(self, state: State, index: int) -> Iterator[Step]:
        claim = state.claims[index]
        if claim.phase == ALLOCATED and claim.alive and claim.prepared is None and self._may_prepare(state, index):
            yield "is prepared", _with(state, index, claim._replace(prepared=claim.device))
        if claim.phase == ALLOCATED and claim.alive and claim.prepared is not None:
            yield "ends", _with(state, index, claim._replace(alive=False, prepared=None))
        if claim.phase == ALLOCATED and claim.alive and self.setting.force:
            yield "is deleted by force", _with(state, index, claim._replace(alive=False))
        if claim.phase == ALLOCATED and not claim.alive:
            gone = claim._replace(phase=GONE, device=None)
            yield "is deallocated", _with(state, index, gone)
            if self.setting.reused:
                again = claim._replace(phase=NEW, device=None, alive=True)
                yield "is deallocated and used by another pod", _with(state, index, again)
        # Also while the claim lives on with another pod: the kubelet works through what ended late.
        if claim.prepared is not None and (
            not claim.alive or claim.prepared != claim.device or claim.phase != ALLOCATED
        ):
            yield "is unprepared", _with(state, index, claim._replace(prepared=None))

    def _may_prepare(self, state: State, index: int) -> bool:
        """Prepare refuses what does not go with what is prepared, and what is in another pool by now."""
        device = state.claims[index].device
        prepared = [
            claim.prepared
            for other, claim in enumerate(state.claims)
            if claim.prepared and not self.setting.is_admin(other)
        ]
        if device is None or (state.disk is not None and pool_of(device) != state.disk.pool):
            return False
        if self.setting.is_admin(index):
            return True
        if device in prepared and not self.setting.is_shared(device):
            return False
        return self._fit([*prepared, device])

    # ---------------------------------------------------------------------------------------------- the agent

    def _writes(self, state: State) -> Iterator[Step]:
        """One slice after the other, in any order; when all are there, the agent may or may not hear of it."""
        disk = state.disk
        if disk is None:
            return
        # What waits for the operator's word has a taint as well.
        wanted = {disk.pool: tuple((entry.device, entry.closing or disk.withheld) for entry in disk.entries)}
        answered = disk._replace(
            entries=tuple(entry._replace(in_api=entry.closing) for entry in disk.entries),
            vacated=disk.vacated or not disk.entries,
        )
        begins = answered.entries != disk.entries and state.fenced is not None
        fenced = state.fenced
        if fenced and begins:
            number = fenced.closings + 1
            entries = zip(disk.entries, answered.entries, strict=True)
            numbered = tuple(
                now if before.in_api or not now.in_api else now._replace(number=number) for before, now in entries
            )
            answered, fenced = answered._replace(entries=numbered), fenced._replace(closings=number)
        there = dict(state.api)
        if wanted == there:
            if answered != disk:
                yield "the agent sees its slice in the API", state._replace(disk=answered, fenced=fenced)
            return
        if len(state.pending) >= self.setting.late:
            return
        for pool in sorted(wanted.keys() | there.keys()):
            if wanted.get(pool) == there.get(pool):
                continue
            now_there = {
                name: content for name, content in {**there, pool: wanted.get(pool)}.items() if content is not None
            }
            api = tuple(sorted(now_there.items()))
            stored = state._replace(api=api, pending=(*state.pending, api))
            if now_there == wanted:
                yield f"slice of {pool} written", stored._replace(disk=answered, fenced=fenced)
            if not (now_there == wanted and self.setting.calm):
                yield f"slice of {pool} written, answer lost", stored

    def _rounds(self, state: State) -> tuple[Disk | None, ...]:
        """What the agent may make of it, depending on whose turn it is to have the menu and what it is time for."""
        prepared = tuple(
            (index, claim.prepared, claim.phase == ALLOCATED and claim.device == claim.prepared)
            for index, claim in enumerate(state.claims)
            if claim.prepared
        )
        known = tuple(_devices(state.api)) if state.disk is None else ()
        noted = state.disk.entries if state.disk else ()
        closing = frozenset(f"{state.disk.pool}/{entry.device}" for entry in noted if state.disk and entry.in_api)
        unseen = closing & self._unseen(state)
        on_its_way = closing & self._in_phase(state, ON_ITS_WAY)
        held = frozenset(map(without_pool, self._in_phase(state, ALLOCATED)))
        # After the longest wait, or by the guard; of a device only for the closing in which it is.
        waited = frozenset(map(without_pool, closing - unseen - on_its_way)) - held
        numbers = {entry.device: entry.number for entry in noted if entry.in_api}
        approved = frozenset(
            device
            for device, number in (state.fenced.spec.approved if state.fenced else ())
            if device in numbers and (numbers[device] == number or self.weather.approvals_last)
        )
        closed_names = state.fenced.spec.closed_names if state.fenced else ()
        key = (state.policy, state.disk, prepared, known, unseen, on_its_way, held, approved, closed_names)
        if key not in self.rounds:
            taken = dict.fromkeys(closing - unseen, TIMING.taken)
            clocks = [
                Clock(patient=True, waited={}, approved=approved),
                Clock(patient=False, waited={}, approved=approved),
                Clock(patient=False, waited=taken, approved=approved),
            ]
            if not state.fenced:
                # What was on its way to a device when it began to close has arrived by then.
                arrived = dict.fromkeys(closing - unseen - on_its_way, TIMING.taken)
                clocks.append(Clock(patient=False, waited=arrived, approved=waited))
            truths = {
                Holder(str(index), without_pool(device), admin=self.setting.is_admin(index)): truth
                for index, device, truth in prepared
            }
            view = GpuView(
                gpu=self.setting.gpu,
                group="g",
                menu=self.setting.menus[state.policy] if state.policy >= 0 else self.setting.as_found,
                policy=POLICY,
                pool=self.setting.pools[state.policy] if state.policy >= 0 else NODE,
                configured=state.policy >= 0,
                published=None,
                found=frozenset(map(without_pool, known)),
                found_in=next((pool_of(device) for device in (*known, *(one for _, one, _ in prepared))), None),
                prepared=tuple(truths),
                closed_names=closed_names,
            )
            found = {
                self._round(replace(view, allocated=allocated), state.disk, truths, clock, menus)
                for menus in (0, 1)
                for clock in clocks
                for allocated in self.setting.heard
            }
            self.rounds[key] = tuple(_numbered(disk, state.disk) for disk in found)
        return self.rounds[key]

    # ------------------------------------------------------------------------------------- the operator, the guard

    def _guard(self, state: State, fenced: Fenced) -> Iterator[Step]:
        def after(**changes: Any) -> State:
            return state._replace(fenced=fenced._replace(**changes))

        report = _report(state.disk)
        if report is not None and report != fenced.report:
            yield "the operator hears the agent", after(report=report)
        if fenced.report is not None and state.policy >= 0:
            yield from self._operator(state, fenced, fenced.report, after)
        for index, server in enumerate(fenced.servers):
            if server != fenced.written:
                servers = (*fenced.servers[:index], fenced.written, *fenced.servers[index + 1 :])
                yield f"server {index} takes the guard over", after(servers=tuple(sorted(servers, key=str)))
        if not self.setting.calm and (fenced.seen or fenced.known is not None):
            yield "another operator leads", after(seen=(), known=None, report=None)
        # Whoever deletes it while what was approved rests on it lets in what it is to refuse: the node refuses that.
        if self.setting.deleted and fenced.written and not fenced.relied_on:
            yield "somebody deletes the guard", after(written=None)

    def _operator(self, state: State, fenced: Fenced, report: Report, after: Callable[..., State]) -> Iterator[Step]:
        written, writes = fenced.written, fenced.writes + 1
        if written is not None and writes <= self.setting.writes:
            for late in (False, True):
                if late and self._is_awaited(state, written):
                    continue
                records = self._written(written, report, state, writes, late)
                if records != written:
                    yield f"the guard is written: {records}", after(written=records, writes=writes)
        count = sum(server == written for server in fenced.servers)
        if written and written != fenced.seen and count >= (1 if self.weather.asks_one_server else len(fenced.servers)):
            known = fenced.known if self.weather.reads_claims_first else self._known(state)
            if known is not None:
                yield "the operator sees the guard hold", after(seen=written, known=known)
        if self.weather.reads_claims_first and fenced.known != self._known(state):
            yield "the operator reads the claims", after(known=self._known(state))
        if fenced.known is not None or self.setting.returns:
            held = fenced.known if self.weather.reads_claims_first and fenced.known is not None else self._known(state)
            key = (report, state.policy, fenced.seen, written, held)
            if key not in self.specs:
                self.specs[key] = self.operator.spec(report, state.policy, Guard(fenced.seen, written), held)
            spec = self.specs[key]
            if spec != fenced.spec:
                relied_on = fenced.relied_on or bool(spec.approved)
                yield f"the operator writes {spec}", after(spec=spec, relied_on=relied_on)

    def _written(self, written: Records, report: Report, state: State, writes: int, late: bool) -> Records:
        key = (written, report, state.policy, self._known(state), writes, late)
        if key not in self.guards:
            self.guards[key] = self.operator.guard(
                written, report, state.policy, self._known(state), write=writes, late=late
            )
        return self.guards[key]

    def _is_awaited(self, state: State, records: Records) -> bool:
        """Whether something is still on its way, or may still be decided, that the guard is to refuse."""
        unseen = {device for device in self._unseen(state) if refuses(records, device)}
        return bool(unseen) or any(
            claim.phase == ON_ITS_WAY and claim.device and refuses(records, claim.device) for claim in state.claims
        )

    def _known(self, state: State) -> frozenset[str]:
        return self._in_phase(state, ALLOCATED) | self._in_phase(state, UNANSWERED)

    def _in_phase(self, state: State, phase: int) -> frozenset[str]:
        key = state.claims, phase
        if key not in self.in_phase:
            self.in_phase[key] = frozenset(
                claim.device
                for index, claim in enumerate(state.claims)
                if claim.device and claim.phase == phase and not self.setting.is_admin(index)
            )
        return self.in_phase[key]

    def _unseen(self, state: State) -> frozenset[str]:
        """Devices whose closing the scheduler has not seen yet: the wait cannot be over."""
        return frozenset(
            f"{pool}/{device}"
            for slices in (state.seen, *state.pending)
            for pool, devices in slices
            for device, closing in devices
            if not closing
        )

    def _round(self, view: GpuView, disk: Disk | None, truths: Mapping[Holder, bool], clock: Clock, menus: int) -> Disk:
        view = replace(view, published=_publication(disk, clock), close_approved=clock.approved)
        answers: dict[Holder, bool] = {}
        timing = replace(TIMING, patience=math.inf if clock.patient else 0)
        plan = self.agent(view, menus, timing, answers)
        while plan.confirm:
            answers |= {holder: truths[holder] for holder in plan.confirm}
            plan = self.agent(view, menus, timing, answers)
        publication = plan.publication
        return Disk(
            publication.pool,
            tuple(_noted(entry) for entry in publication.entries),
            vacated=publication.vacated,
            complete=publication.complete,
            withheld=publication.withheld,
        )


def _devices(slices: Slices) -> list[str]:
    return [f"{pool}/{device}" for pool, devices in slices for device, _ in devices]


def _rank(claim: Claim) -> tuple[int, str, bool, str]:
    return claim.phase, claim.device or "", claim.alive, claim.prepared or ""


def _with(state: State, index: int, claim: Claim) -> State:
    return state._replace(claims=(*state.claims[:index], claim, *state.claims[index + 1 :]))


def _publication(disk: Disk | None, clock: Clock) -> Publication | None:
    if disk is None:
        return None
    entries = tuple(_entry(noted, disk.pool, clock) for noted in disk.entries)
    return Publication(
        pool=disk.pool, complete=disk.complete, entries=entries, vacated=disk.vacated, withheld=disk.withheld
    )


def _entry(noted: Noted, pool: str, clock: Clock) -> Entry:
    return Entry(
        device=noted.device,
        policy=POLICY,
        standing=Standing.CLOSING if noted.closing else Standing.OPEN,
        closing_since=NOW - clock.waited.get(f"{pool}/{noted.device}", 0.0) if noted.in_api else None,
    )


def _noted(entry: Entry) -> Noted:
    return Noted(
        device=entry.device,
        closing=entry.standing is not Standing.OPEN,
        in_api=entry.closing_since is not None,
    )


def _numbered(disk: Disk | None, before: Disk | None) -> Disk | None:
    """With the numbers of closings that last."""
    if disk is None or before is None:
        return disk
    numbers = {entry.device: entry.number for entry in before.entries if entry.in_api}
    entries = tuple(
        entry._replace(number=numbers.get(entry.device, 0)) if entry.in_api else entry for entry in disk.entries
    )
    return disk._replace(entries=entries)


def _report(disk: Disk | None) -> Report | None:
    if disk is None or disk.withheld:
        return None
    return Report(disk.pool, tuple((entry.device, entry.number if entry.in_api else None) for entry in disk.entries))


def _told(disk: Disk | None) -> str:
    if disk is None:
        return ""
    entries = ", ".join(f"{entry.device} closing" if entry.closing else entry.device for entry in disk.entries)
    return f"in {disk.pool} {entries or 'nothing'}{', which the API has' if disk.vacated else ''}"
